//! Handlers for jobs without code: call a URL, run a program, publish a message. What to do is the body of
//! the message, so any node with the same tools can do it.

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
pub(crate) use open_files::{lacks_files, not_now};
pub(crate) use post::Posted;
pub(crate) use programs::allowed;
pub use signature::sign;
pub(crate) use vault::resolve;
pub use vault::{Purpose, Vault};

use crate::config::{CommandConfig, Config};
use crate::outgoing::Outgoing;
use crate::spec::{COMMAND_TOPIC, HTTP_TOPIC, PUBLISH_TOPIC, Target};

/// The topic of messages that are sent to see whether anything arrives: every server handles them, and each
/// succeeds. The first command that an empty dashboard offers publishes one.
pub const TEST_TOPIC: &str = "punctual-test";

/// What targets work with.
#[derive(Clone)]
pub struct Tools {
    client: reqwest::Client,
    guard: Guard,
    vault: Vault,
    command: Arc<CommandConfig>,
    /// Starts a program; tests put failures in its place.
    spawn: fn(&mut Command) -> io::Result<Child>,
    clock: Arc<dyn Clock>,
}

impl Tools {
    /// The tools that a configuration allows.
    pub fn new(config: &Config, clock: Arc<dyn Clock>) -> Result<Self> {
        let outgoing = Outgoing::load(&config.outgoing)?;
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

    /// What gives out secrets.
    pub fn vault(&self) -> &Vault {
        &self.vault
    }

    /// What says which addresses may be called.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Gives a builder the handlers of the targets.
    pub fn register(&self, builder: Builder) -> Builder {
        builder
            .handler(Topic::system(HTTP_TOPIC), http::HttpRunner(self.clone()))
            .handler(Topic::system(COMMAND_TOPIC), command::CommandRunner(self.clone()))
            .handler(Topic::system(PUBLISH_TOPIC), publish::PublishRunner)
            .handler(TEST_TOPIC, async |context: Context| context.report_success("it arrived"))
    }
}

/// What a target is about, checked once more: what was stored by another version, or by hand, has bounds too.
fn checked(target: &Target) -> Result<(), HandlerError> {
    match target.check().first() {
        None => Ok(()),
        Some(problem) => Err(HandlerError::new(problem.to_string()).permanent()),
    }
}

/// A message that says something else than its topic.
fn misdirected(topic: &str) -> HandlerError {
    HandlerError::new(format!("the message of the topic {topic} asks for another target"))
        .permanent()
}
