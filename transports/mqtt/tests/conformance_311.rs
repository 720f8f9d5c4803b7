//! Conformance suite of transports with MQTT 3.1.1.

// Without the standard harness the lints do not recognize test code.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "it/foreign_client.rs"]
mod foreign_client;
#[path = "it/suite.rs"]
mod suite;

use std::process::ExitCode;

use punctual_mqtt::Version;

fn main() -> ExitCode {
    suite::run("mqtt-3.1.1", Version::V311)
}
