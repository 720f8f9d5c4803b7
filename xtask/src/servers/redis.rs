//! Redis: its package, and how a private one is started.
//!
//! It listens on the loopback address only, needs no password, and contains test data only. It always has an
//! append-only file, because tests restart it and check accepted messages; a relaxed one does not wait for the disk.

use std::process::Command;

use anyhow::Result;

use super::readiness::ask;
use super::{Durability, Place, Server};

const PROGRAM: &str = "redis-server";

/// A private Redis.
pub struct Redis;

impl Server for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn folder(&self) -> &'static str {
        "transports/redis"
    }

    fn variable(&self) -> &'static str {
        "PUNCTUAL_REDIS_URL"
    }

    fn is_installed(&self) -> bool {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&folders).any(|folder| folder.join(PROGRAM).is_file())
    }

    fn packages(&self) -> Result<Vec<String>> {
        Ok(vec![PROGRAM.to_owned()])
    }

    fn prepare(&self, place: &Place) -> Result<Command> {
        let mut command = Command::new(PROGRAM);
        command.args(["--bind", "127.0.0.1", "--port", &place.port.to_string()]);
        command.arg("--dir").arg(&place.folder);
        command.args(["--save", "", "--appendonly", "yes", "--daemonize", "no"]);
        command.args(["--appendfsync", flushes(place.durability)]);
        // A rewrite of its file in the middle of a run would be measured as slowness of a transport.
        command.args(["--auto-aof-rewrite-percentage", "0"]);
        // It is known as ours by its folder in the command line, which it would write over.
        command.args(["--set-proc-title", "no"]);
        Ok(command)
    }

    fn is_ready(&self, place: &Place) -> bool {
        // While it loads its file it responds with an error.
        ask(place.port, b"PING\r\n").is_ok_and(|answer| &answer == b"+PONG")
    }

    fn address(&self, place: &Place) -> String {
        format!("redis://127.0.0.1:{}/", place.port)
    }
}

/// When the append-only file is flushed to disk.
fn flushes(durability: Durability) -> &'static str {
    match durability {
        Durability::Relaxed => "no",
        Durability::Durable => "always",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_durable_one_waits_for_the_disk() {
        assert_eq!(flushes(Durability::Relaxed), "no");
        assert_eq!(flushes(Durability::Durable), "always");
    }

    #[test]
    fn a_port_without_a_server_is_not_ready() {
        let place = Place::create("redis", Durability::Relaxed).unwrap();
        assert!(!Redis.is_ready(&place));
        place.remove();
    }
}
