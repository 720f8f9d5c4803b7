//! Place of a server: a scratch folder, a free port, and its durability.
//!
//! The folder is in the system's temporary folder and not under `target/`: a server that drops its
//! privileges must be able to read it, which a checkout in a private home folder prevents.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Whether acknowledged data survives a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Without flushes to disk: for tests of behaviour, which become several times faster.
    Relaxed,
    /// As in production: for benchmarks and kill tests.
    Durable,
}

/// The folder, port and durability of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The scratch folder, removed when the server has been stopped.
    pub folder: PathBuf,
    /// The port on the loopback address.
    pub port: u16,
    /// The durability.
    pub durability: Durability,
}

impl Place {
    /// Creates a folder and chooses a free port.
    pub fn create(name: &str, durability: Durability) -> Result<Self> {
        let port = free_port()?;
        let own = std::process::id();
        let folder = std::env::temp_dir().join(format!("punctual-{name}-{own}-{port}"));
        fs::create_dir(&folder).with_context(|| format!("create {}", folder.display()))?;
        Ok(Self { folder, port, durability })
    }

    /// File with the output of the server.
    pub fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// File with the server's process id.
    pub fn pid_file(&self) -> PathBuf {
        self.folder.join("pid")
    }

    /// Returns the server's process id, if it was written.
    pub fn pid(&self) -> Option<u32> {
        fs::read_to_string(self.pid_file()).ok()?.trim().parse().ok()
    }

    /// Returns the last lines of the log, for error messages.
    pub fn log_tail(&self) -> String {
        tail(&fs::read_to_string(self.log()).unwrap_or_default(), 12)
    }

    /// Removes the folder, if it exists.
    pub fn remove(&self) {
        remove(&self.folder);
    }
}

/// Removes a scratch folder, or prints why that failed.
pub(super) fn remove(folder: &Path) {
    if let Err(error) = fs::remove_dir_all(folder)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        eprintln!("could not remove {}: {error}", folder.display());
    }
}

/// Returns whether a folder's name is of the form `create` gives: `punctual-<name>-<process>-<port>`.
pub(super) fn is_scratch_name(name: &str) -> bool {
    let mut parts = name.rsplitn(3, '-');
    let numbers = [parts.next(), parts.next()];
    let are_numbers = numbers.iter().flatten().filter(|part| part.parse::<u32>().is_ok()).count();
    let rest = parts.next().and_then(|rest| rest.strip_prefix("punctual-"));
    are_numbers == 2 && rest.is_some_and(|name| !name.is_empty())
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("find a free port")?;
    Ok(listener.local_addr()?.port())
}

fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_places_share_nothing() {
        let one = Place::create("test", Durability::Relaxed).unwrap();
        let other = Place::create("test", Durability::Relaxed).unwrap();
        assert_ne!(one.folder, other.folder);
        assert_eq!(one.pid(), None);
        for place in [one, other] {
            place.remove();
            assert!(!place.folder.exists());
        }
    }

    #[test]
    fn a_tail_is_the_end() {
        assert_eq!(tail("a\nb\nc\n", 2), "b\nc");
        assert_eq!(tail("", 2), "");
    }
}
