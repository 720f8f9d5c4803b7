//! Limit of open files of this process: raised at the start as far as the system allows, and divided between
//! connections and work, so that clients cannot use up the files that jobs, programs and the storage need.

/// Requested limit when the system has no maximum.
const FILES_MAX: u64 = 1 << 20;
/// Largest number of files reserved for work.
const RESERVE_MAX: u64 = 1_024;

/// Raises the limit as far as the system allows.
#[cfg(unix)]
pub(crate) fn raise() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let target = limit.maximum.unwrap_or(FILES_MAX).min(FILES_MAX);
    if limit.current.is_none_or(|current| current >= target) {
        return;
    }
    let raised = Rlimit { current: Some(target), maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => {
            tracing::debug!(from = limit.current, to = target, "raised the limit of open files");
        }
        Err(error) => {
            tracing::warn!(%error, limit = limit.current, "the limit of open files cannot be raised");
        }
    }
}

/// Returns the limit in force; none when unlimited.
#[cfg(unix)]
pub(crate) fn current() -> Option<u64> {
    use rustix::process::{Resource, getrlimit};
    getrlimit(Resource::Nofile).current
}

/// No-op: the system has no such limit.
#[cfg(not(unix))]
pub(crate) fn raise() {}

#[cfg(not(unix))]
pub(crate) fn current() -> Option<u64> {
    None
}

/// Returns how many of `files` may be connections: half of a small limit, nearly all of a large one.
pub(crate) fn for_connections(files: u64) -> usize {
    let reserve = (files / 2).min(RESERVE_MAX);
    usize::try_from(files - reserve).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_reserved_for_work() {
        assert_eq!(for_connections(1_024), 512);
        assert_eq!(for_connections(65_536), 64_512);
        assert_eq!(for_connections(0), 1);
    }

    #[cfg(unix)]
    #[test]
    fn the_limit_is_raised_to_the_limit_of_the_system() {
        use rustix::process::{Resource, getrlimit};
        raise();
        let limit = getrlimit(Resource::Nofile);
        let most = limit.maximum.unwrap_or(FILES_MAX).min(FILES_MAX);
        assert!(limit.current.is_none_or(|current| current >= most), "{limit:?}");
    }
}
