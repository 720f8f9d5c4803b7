//! Handlers of targets of jobs without code: call a URL, run a program, publish a message. The target is the body
//! of the message, so any node with the same configuration can run it.

mod command;
mod exchange;
mod group;
mod guard;
mod http;
mod open_files;
mod output;
mod post;
mod programs;
mod publish;
mod signature;
mod vault;

use std::io;
use std::sync::Arc;

use punctual::model::Topic;
use punctual::{Builder, Clock, Context, HandlerError, Result};
use tokio::process::{Child, Command};

pub use guard::Guard;
pub(crate) use open_files::{lacks_files, snooze_without_files};
pub(crate) use post::PostRequest;
pub(crate) use programs::allowed;
pub use signature::sign;
pub(crate) use vault::resolve;
pub use vault::{SecretUse, Vault};

use crate::config::{CommandConfig, Config};
use crate::outgoing::OutgoingCalls;
use crate::spec::{COMMAND_TOPIC, HTTP_TOPIC, PUBLISH_TOPIC, Target};

/// The topic of test messages: every server handles them, and each succeeds. The first command that an empty
/// dashboard offers publishes one.
pub const TEST_TOPIC: &str = "punctual-test";

/// Clients, secrets and rules shared by the handlers of targets.
#[derive(Clone)]
pub struct TargetServices {
    client: reqwest::Client,
    guard: Guard,
    vault: Vault,
    command: Arc<CommandConfig>,
    /// Starts a program; replaced in tests.
    spawn: fn(&mut Command) -> io::Result<Child>,
    clock: Arc<dyn Clock>,
}

impl TargetServices {
    /// Returns the services of a configuration.
    pub fn new(config: &Config, clock: Arc<dyn Clock>) -> Result<Self> {
        let outgoing = OutgoingCalls::load(&config.outgoing)?;
        let guard = Guard::new(config.http.clone()).through(outgoing);
        Ok(Self {
            client: guard.client()?,
            guard,
            vault: Vault::of(config),
            command: Arc::new(config.command.clone()),
            spawn: Command::spawn,
            clock,
        })
    }

    /// Returns the vault of secrets.
    pub fn vault(&self) -> &Vault {
        &self.vault
    }

    /// Returns the guard of outgoing calls.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Registers the handlers of the targets.
    pub fn register(&self, builder: Builder) -> Builder {
        builder
            .handler(Topic::system(HTTP_TOPIC), http::HttpRunner(self.clone()))
            .handler(Topic::system(COMMAND_TOPIC), command::CommandRunner(self.clone()))
            .handler(Topic::system(PUBLISH_TOPIC), publish::PublishRunner)
            .handler(TEST_TOPIC, async |context: Context| context.report_success("it arrived"))
    }
}

/// Checks a target again: one stored by another version, or by hand, may be invalid.
fn checked(target: &Target) -> Result<(), HandlerError> {
    match target.check().first() {
        None => Ok(()),
        Some(problem) => Err(HandlerError::new(problem.to_string()).permanent()),
    }
}

/// Returns the error of a message whose target does not match its topic.
fn misdirected(topic: &str) -> HandlerError {
    HandlerError::new(format!("the message of the topic {topic} contains another target"))
        .permanent()
}
