//! MQTT, by Mosquitto: its package, and how a private one is started.
//!
//! It listens on the loopback address only, needs no password, and contains test data only. It stores its sessions
//! when it ends gracefully; a durable one also every second.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};

use super::readiness::ask;
use super::{Durability, Place, Server};

const PROGRAM: &str = "mosquitto";
/// Path of the package's program, in a folder that is not in every user's `PATH`.
const SYSTEM_FOLDER: &str = "/usr/sbin";
/// A connection of MQTT 3.1.1 without a name, and the response that accepts it.
const HELLO: &[u8] = b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x3c\x00\x00";
const WELCOME: [u8; 4] = [0x20, 0x02, 0x00, 0x00];

/// A private Mosquitto.
pub struct Mqtt;

impl Server for Mqtt {
    fn name(&self) -> &'static str {
        "mqtt"
    }

    fn folder(&self) -> &'static str {
        "transports/mqtt"
    }

    fn variable(&self) -> &'static str {
        "PUNCTUAL_MQTT_URL"
    }

    fn is_installed(&self) -> bool {
        program().is_some()
    }

    fn packages(&self) -> Result<Vec<String>> {
        Ok(vec![PROGRAM.to_owned()])
    }

    fn prepare(&self, place: &Place) -> Result<Command> {
        let program = program().context("mosquitto is not installed")?;
        let file = place.folder.join("mosquitto.conf");
        fs::write(&file, settings(place)).with_context(|| format!("write {}", file.display()))?;
        let mut command = Command::new(program);
        command.arg("-c").arg(file);
        Ok(command)
    }

    fn is_ready(&self, place: &Place) -> bool {
        ask(place.port, HELLO).is_ok_and(|answer| answer == WELCOME)
    }

    fn address(&self, place: &Place) -> String {
        format!("mqtt://127.0.0.1:{}", place.port)
    }
}

fn program() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&folders).chain([PathBuf::from(SYSTEM_FOLDER)]);
    folders.map(|folder| folder.join(PROGRAM)).find(|program| program.is_file())
}

/// Without a limit of queued messages: by default, more than a thousand per session are dropped. When
/// started by root it would change to a user without write access to the folder.
fn settings(place: &Place) -> String {
    let Place { folder, port, durability } = place;
    let mut text = format!(
        "listener {port} 127.0.0.1\nallow_anonymous true\nuser root\nlog_dest stderr\n\
         persistence true\npersistence_location {}/\n\
         max_queued_messages 0\nmax_inflight_messages 1000\nset_tcp_nodelay true\n",
        folder.display()
    );
    if *durability == Durability::Durable {
        // Not after each change: the broker writes down all that it has every time.
        text.push_str("autosave_interval 1\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_durable_one_stores_its_sessions_every_second() {
        let mut place = Place::create("mqtt", Durability::Relaxed).unwrap();
        assert!(!settings(&place).contains("autosave"));
        place.durability = Durability::Durable;
        assert!(settings(&place).contains("autosave_interval 1\n"));
        place.remove();
    }

    #[test]
    fn a_port_without_a_server_is_not_ready() {
        let place = Place::create("mqtt", Durability::Relaxed).unwrap();
        assert!(!Mqtt.is_ready(&place));
        place.remove();
    }
}
