//! `punctual messages`: what waits, runs and ended, why, and acting on it.

mod acting;
mod changing;
mod looking;
mod sending;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use punctual::jiff::Timestamp;
use serde_json::{Map, Value};

use super::given::instant;
use crate::client::Call;
use crate::desk::{Reach, at_desk};
use acting::Chosen;
use changing::{Reassign, Reschedule};
use looking::List;
use sending::Publish;

pub(crate) use acting::{Deed, sweep};
pub(crate) use looking::rows;

/// Messages.
#[derive(Debug, Args)]
pub(crate) struct MessagesArgs {
    #[command(flatten)]
    reach: Reach,
    #[command(subcommand)]
    command: MessagesCommand,
}

/// What to do with messages.
#[derive(Debug, Subcommand)]
enum MessagesCommand {
    /// Messages, newest first.
    List(List),
    /// One message: content, attempts, and why it is where it is.
    Show(One),
    /// Why a message is where it is.
    Why(One),
    /// Publish a message through the server or the storage.
    Publish(Publish),
    /// Stop messages: pending ones at once, running ones by asking their handlers.
    Cancel(Chosen),
    /// Send finished messages again; without ids or --state the dead ones that match.
    Redrive(Chosen),
    /// Make pending messages due at another time.
    Reschedule(Reschedule),
    /// Put pending messages into another queue, or make them more or less urgent.
    Reassign(Reassign),
    /// Delete messages that are not running, without a trace.
    Delete(Chosen),
}

/// A message.
#[derive(Debug, Args)]
struct One {
    /// The message.
    id: String,
}

/// Which messages.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Filter {
    /// Only these states, with commas between them: pending, running, done, dead, cancelled.
    #[arg(long)]
    state: Option<String>,
    /// Only these phases: scheduled, ready, retrying, running, stale, done, dead, cancelled.
    #[arg(long)]
    phase: Option<String>,
    /// Only of this queue.
    #[arg(long)]
    queue: Option<String>,
    /// Only of this topic.
    #[arg(long)]
    topic: Option<String>,
    /// Only about this key.
    #[arg(long)]
    key: Option<String>,
    /// Only runs of this job.
    #[arg(long)]
    job: Option<String>,
    /// Only of this batch.
    #[arg(long)]
    batch: Option<String>,
    /// Only where the last failure holds this text.
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
    /// Only with at least so many attempts.
    #[arg(long, value_name = "N")]
    attempt_min: Option<u32>,
    /// Only those made at this instant or later, such as -1h.
    #[arg(long, value_name = "INSTANT", value_parser = instant, allow_hyphen_values = true)]
    since: Option<Timestamp>,
    /// Only those made before this instant.
    #[arg(long, value_name = "INSTANT", value_parser = instant, allow_hyphen_values = true)]
    until: Option<Timestamp>,
    /// Only where the id, topic, queue, key, job or last failure holds this text.
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
}

impl Filter {
    fn pairs(&self) -> Vec<(&'static str, Value)> {
        let text = |text: &Option<String>| text.clone().map(Value::String);
        let at = |at: Option<Timestamp>| at.map(|at| Value::String(at.to_string()));
        let all = [
            ("state", text(&self.state)),
            ("phase", text(&self.phase)),
            ("queue", text(&self.queue)),
            ("topic", text(&self.topic)),
            ("key", text(&self.key)),
            ("job", text(&self.job)),
            ("batch", text(&self.batch)),
            ("error", text(&self.error)),
            ("attempt_min", self.attempt_min.map(Value::from)),
            ("since", at(self.since)),
            ("until", at(self.until)),
            ("search", text(&self.search)),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    /// Whether it names anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.pairs().is_empty()
    }

    /// As parameters of a list.
    pub(crate) fn on(&self, call: Call) -> Call {
        self.pairs().into_iter().fold(call, |call, (name, value)| {
            let text = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
            call.with(name, Some(text))
        })
    }

    /// As a part of a body.
    pub(crate) fn body(&self) -> Value {
        let pairs = self.pairs().into_iter().map(|(name, value)| (name.to_owned(), value));
        pairs.collect::<Map<String, Value>>().into()
    }
}

/// Runs one of them.
pub(crate) fn run(arguments: &MessagesArgs) -> ExitCode {
    at_desk(&arguments.reach, async |desk| match &arguments.command {
        MessagesCommand::List(list) => looking::list(desk, list).await,
        MessagesCommand::Show(one) => looking::show(desk, &one.id).await,
        MessagesCommand::Why(one) => looking::why(desk, &one.id).await,
        MessagesCommand::Publish(publish) => sending::publish(desk, publish).await,
        MessagesCommand::Cancel(chosen) => acting::act(desk, &Deed::cancel(), chosen).await,
        MessagesCommand::Redrive(chosen) => acting::act(desk, &Deed::redrive(), chosen).await,
        MessagesCommand::Reschedule(reschedule) => changing::reschedule(desk, reschedule).await,
        MessagesCommand::Reassign(reassign) => changing::reassign(desk, reassign).await,
        MessagesCommand::Delete(chosen) => acting::act(desk, &Deed::delete(), chosen).await,
    })
}
