//! Host name and memory of this process, as far as the operating system provides them.

/// Returns the host name.
pub(crate) fn host() -> Option<String> {
    let named = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let named = named.or_else(|| std::env::var("HOSTNAME").ok())?;
    Some(named.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Returns the resident memory of this process in bytes.
pub(crate) fn memory_bytes() -> Option<u64> {
    resident(&std::fs::read_to_string("/proc/self/status").ok()?)
}

fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resident_size_is_read() {
        assert_eq!(resident("Name:\tx\nVmRSS:\t    12 kB\nThreads:\t1\n"), Some(12_288));
        assert_eq!(resident("Name:\tx\n"), None);
    }
}
