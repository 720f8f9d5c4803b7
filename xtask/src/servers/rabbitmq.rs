//! RabbitMQ: its programs, its package, and how a private one is started.
//!
//! The package's own command switches user and writes to the system's folders, so the script that it
//! wraps is called directly, with all of its files in the scratch folder. An Erlang node needs a small name
//! server, which would stay as a daemon: it is started here, on its own port, and ends with the node.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::{Durability, Place, Server};

/// The script that Debian's wrapper calls.
const SCRIPT: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";
const SETTINGS: &str = "log.console = true\nlog.file = false\ndisk_free_limit.absolute = 50MB\n";
/// Lets quorum queues skip flushes to disk, for tests.
const CARELESS: &str = "[{ra, [{wal_sync_method, none}]}].\n";
/// `$1` the port of the name server, then the node's command. The node replaces this shell, so
/// that its process id is the one that was started; its background processes outlive it by a
/// second at most.
const SERVE: &str = r#"
node=$$ port=$1
shift
{
    epmd -port "$port" -address 127.0.0.1 &
    names=$!
    while grep -qa . "/proc/$node/cmdline" 2>/dev/null; do sleep 0.2; done
    kill "$names" 2>/dev/null
} </dev/null >/dev/null 2>&1 &
# A node that finds no name server starts one that stays.
tries=0
until epmd -port "$port" -names >/dev/null 2>&1 || [ "$tries" -ge 100 ]; do
    tries=$((tries + 1))
    sleep 0.1
done
exec "$@"
"#;

/// A private RabbitMQ.
pub struct Rabbitmq;

impl Server for Rabbitmq {
    fn name(&self) -> &'static str {
        "rabbitmq"
    }

    fn folder(&self) -> &'static str {
        "transports/rabbitmq"
    }

    fn variable(&self) -> &'static str {
        "PUNCTUAL_RABBITMQ_URL"
    }

    fn is_installed(&self) -> bool {
        Path::new(SCRIPT).exists()
    }

    fn packages(&self) -> Result<Vec<String>> {
        Ok(vec!["rabbitmq-server".to_owned()])
    }

    fn prepare(&self, place: &Place) -> Result<Command> {
        let ports = Ports::of(&place.folder)?;
        let folder = place.folder.display();
        let (port, Ports { names, nodes }) = (place.port, &ports);
        let careless = place.durability == Durability::Relaxed;
        for (file, text) in [
            ("rabbitmq.conf", SETTINGS),
            ("advanced.config", if careless { CARELESS } else { "[].\n" }),
            ("enabled_plugins", "[].\n"),
            ("environment", ""),
        ] {
            fs::write(place.folder.join(file), text).with_context(|| format!("write {file}"))?;
        }
        let mut command = Command::new("sh");
        command.args(["-c", SERVE, "serve", names.as_str(), "env"]);
        command.args([
            format!("HOME={folder}"),
            format!("RABBITMQ_NODENAME=punctual{port}@localhost"),
            "RABBITMQ_NODE_IP_ADDRESS=127.0.0.1".to_owned(),
            format!("RABBITMQ_NODE_PORT={port}"),
            format!("RABBITMQ_DIST_PORT={nodes}"),
            format!("ERL_EPMD_PORT={names}"),
            "ERL_EPMD_ADDRESS=127.0.0.1".to_owned(),
            format!("RABBITMQ_MNESIA_BASE={folder}/mnesia"),
            format!("RABBITMQ_LOG_BASE={folder}/logs"),
            "RABBITMQ_LOGS=-".to_owned(),
            format!("RABBITMQ_SCHEMA_DIR={folder}/schema"),
            format!("RABBITMQ_GENERATED_CONFIG_DIR={folder}/config"),
            format!("RABBITMQ_ENABLED_PLUGINS_FILE={folder}/enabled_plugins"),
            format!("RABBITMQ_CONFIG_FILE={folder}/rabbitmq.conf"),
            format!("RABBITMQ_ADVANCED_CONFIG_FILE={folder}/advanced.config"),
            format!("RABBITMQ_CONF_ENV_FILE={folder}/environment"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}"
                .to_owned(),
            // "Input allowed" is what makes the script replace itself by the node.
            "RABBITMQ_ALLOW_INPUT=1".to_owned(),
        ]);
        // The last two name the folder on the node's command line, by which it is known as ours.
        command.args([SCRIPT, "-noinput", "-punctual"]).arg(&place.folder);
        Ok(command)
    }

    fn is_ready(&self, place: &Place) -> bool {
        greets(place.port).unwrap_or(false)
    }

    fn address(&self, place: &Place) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/%2f", place.port)
    }
}

/// Returns whether a broker responds to the greeting of the protocol.
fn greets(port: u16) -> std::io::Result<bool> {
    let at_most = Duration::from_secs(2);
    let mut stream = TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, port).into(), at_most)?;
    stream.set_read_timeout(Some(at_most))?;
    stream.write_all(b"AMQP\x00\x00\x09\x01")?;
    let mut answer = [0];
    stream.read_exact(&mut answer)?;
    // A method frame: "start".
    Ok(answer == [1])
}

/// The ports besides the one for clients, stored in the folder, because a restarted node uses the same.
struct Ports {
    names: String,
    nodes: String,
}

impl Ports {
    fn of(folder: &Path) -> Result<Self> {
        let file = folder.join("ports");
        if !file.exists() {
            // Both are held until both are known, so that they differ.
            let (names, nodes) = (free()?, free()?);
            let (names, nodes) = (names.local_addr()?.port(), nodes.local_addr()?.port());
            fs::write(&file, format!("{names} {nodes}"))?;
        }
        let text = fs::read_to_string(&file)?;
        let (names, nodes) = text.split_once(' ').context("the file of ports is broken")?;
        Ok(Self { names: names.to_owned(), nodes: nodes.to_owned() })
    }
}

fn free() -> Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("find a free port")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_comes_back_keeps_its_ports() {
        let place = Place::create("rabbitmq-ports", Durability::Relaxed).unwrap();
        let first = Ports::of(&place.folder).unwrap();
        let again = Ports::of(&place.folder).unwrap();
        assert_eq!((&first.names, &first.nodes), (&again.names, &again.nodes));
        assert_ne!(first.names, first.nodes);
        place.remove();
    }

    #[test]
    fn a_port_without_a_broker_is_not_ready() {
        let held = free().unwrap();
        let port = held.local_addr().unwrap().port();
        drop(held);
        assert!(!greets(port).unwrap_or(false));
    }
}
