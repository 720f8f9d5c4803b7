//! NATS with JetStream: where its program is, which package brings it, and how a private one is started.
//!
//! Any version on the search path is used, so that a newer one than the distribution's can be tried; else
//! it is Debian's. It listens on the loopback address only and knows no users.

use std::fs;
use std::io::Read as _;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::{Durability, Place, Server};

/// Debian puts it where only root's search path leads.
const DEBIAN: &str = "/usr/sbin/nats-server";
/// The first version that can be told to wait for the disk at every message.
const WAITS_FOR_DISK: (u32, u32) = (2, 10);
/// The most bytes of the greeting that are looked at.
const GREETING_MAX: usize = 4_096;

/// A private NATS with JetStream.
pub struct Nats;

impl Server for Nats {
    fn name(&self) -> &'static str {
        "nats"
    }

    fn folder(&self) -> &'static str {
        "transports/nats"
    }

    fn variable(&self) -> &'static str {
        "PUNCTUAL_NATS_URL"
    }

    fn is_installed(&self) -> bool {
        program().is_some()
    }

    fn packages(&self) -> Result<Vec<String>> {
        Ok(vec!["nats-server".to_owned()])
    }

    fn prepare(&self, place: &Place) -> Result<Command> {
        let program = program().context("NATS is not installed")?;
        let file = place.folder.join("configuration");
        let waits = place.durability == Durability::Durable && version(&program) >= WAITS_FOR_DISK;
        fs::write(&file, configuration(place, waits))
            .with_context(|| format!("write {}", file.display()))?;
        let mut command = Command::new(program);
        command.arg("--config").arg(file);
        Ok(command)
    }

    fn is_ready(&self, place: &Place) -> bool {
        greeting(place.port).is_some_and(|greeting| greeting.contains("\"jetstream\":true"))
    }

    fn address(&self, place: &Place) -> String {
        format!("nats://127.0.0.1:{}", place.port)
    }
}

fn configuration(place: &Place, waits_for_disk: bool) -> String {
    let data = place.folder.join("data");
    let sync = if waits_for_disk { "  sync_interval: always\n" } else { "" };
    format!(
        "listen: \"127.0.0.1:{}\"\njetstream {{\n  store_dir: {:?}\n{sync}}}\n",
        place.port,
        data.display().to_string(),
    )
}

/// What the server says to whoever connects; it says it once JetStream is there.
fn greeting(port: u16) -> Option<String> {
    let patience = Duration::from_secs(1);
    let address = (Ipv4Addr::LOCALHOST, port).into();
    let mut stream = TcpStream::connect_timeout(&address, patience).ok()?;
    stream.set_read_timeout(Some(patience)).ok()?;
    let mut greeting = vec![0; GREETING_MAX];
    let length = stream.read(&mut greeting).ok()?;
    Some(String::from_utf8_lossy(&greeting[..length]).into_owned())
}

fn program() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let from_path: Vec<PathBuf> =
        std::env::split_paths(&folders).map(|folder| folder.join("nats-server")).collect();
    from_path.into_iter().chain([PathBuf::from(DEBIAN)]).find(|program| program.is_file())
}

/// Major and minor; zero when it does not say.
fn version(program: &Path) -> (u32, u32) {
    let output = Command::new(program).arg("--version").output();
    output
        .ok()
        .and_then(|output| parsed(&String::from_utf8_lossy(&output.stdout)))
        .unwrap_or_default()
}

/// Reads `nats-server: v2.9.10`.
fn parsed(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.trim().rsplit_once('v')?.1.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(durability: Durability) -> Place {
        Place { folder: PathBuf::from("/tmp/punctual-nats-1-2"), port: 4711, durability }
    }

    #[test]
    fn the_version_is_read_from_its_own_words() {
        assert_eq!(parsed("nats-server: v2.9.10\n"), Some((2, 9)));
        assert_eq!(parsed("nats-server: v2.15.1\n"), Some((2, 15)));
        assert_eq!(parsed("nonsense"), None);
        assert!((2, 9) < WAITS_FOR_DISK);
    }

    #[test]
    fn it_listens_on_the_loopback_only_and_waits_for_the_disk_only_when_told() {
        let relaxed = configuration(&place(Durability::Relaxed), false);
        assert!(relaxed.contains("listen: \"127.0.0.1:4711\""), "{relaxed}");
        assert!(!relaxed.contains("sync_interval"), "{relaxed}");
        assert!(configuration(&place(Durability::Durable), true).contains("sync_interval: always"));
    }
}
