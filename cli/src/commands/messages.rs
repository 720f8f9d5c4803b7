//! `punctual messages`: lists, explains, publishes and changes messages.

mod actions;
mod publish;
mod reschedule;
mod view;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use punctual::jiff::Timestamp;
use serde_json::{Map, Value};

use super::input::instant;
use crate::client::Call;
use crate::command_context::{ConnectionArgs, run_command};
use actions::Selection;
use publish::Publish;
use reschedule::{Reassign, Reschedule};
use view::List;

pub(crate) use actions::{Action, run_bulk};
pub(crate) use view::rows;

/// Arguments of `punctual messages`.
#[derive(Debug, Args)]
pub(crate) struct MessagesArgs {
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(subcommand)]
    command: MessagesCommand,
}

/// Commands about messages.
#[derive(Debug, Subcommand)]
enum MessagesCommand {
    /// List messages, newest first.
    List(List),
    /// Show a message with its body and attempts.
    Show(MessageId),
    /// Explain the state of a message.
    Why(MessageId),
    /// Publish a message through the server or the storage.
    Publish(Publish),
    /// Cancel messages; the handlers of running ones are asked to stop.
    Cancel(Selection),
    /// Redrive finished messages; without ids or --state only dead ones.
    Redrive(Selection),
    /// Change when pending messages are due.
    Reschedule(Reschedule),
    /// Change the queue or the priority of pending messages.
    Reassign(Reassign),
    /// Delete messages that are not running, with their history.
    Delete(Selection),
}

/// Id of a message.
#[derive(Debug, Args)]
struct MessageId {
    /// Id of the message.
    id: String,
}

/// Filter of messages.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Filter {
    /// Only in these states, separated by commas: pending, running, done, dead, cancelled.
    #[arg(long)]
    state: Option<String>,
    /// Only in these phases, separated by commas: scheduled, ready, retrying, running, stale, done, dead, cancelled.
    #[arg(long)]
    phase: Option<String>,
    /// Only of this queue.
    #[arg(long)]
    queue: Option<String>,
    /// Only of this topic.
    #[arg(long)]
    topic: Option<String>,
    /// Only with this key.
    #[arg(long)]
    key: Option<String>,
    /// Only runs of this job.
    #[arg(long)]
    job: Option<String>,
    /// Only of this batch.
    #[arg(long)]
    batch: Option<String>,
    /// Only messages whose last error contains this text.
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
    /// Only with at least this many attempts.
    #[arg(long, value_name = "N")]
    attempt_min: Option<u32>,
    /// Only messages created at this instant or later, such as -1h.
    #[arg(long, value_name = "INSTANT", value_parser = instant, allow_hyphen_values = true)]
    since: Option<Timestamp>,
    /// Only messages created before this instant.
    #[arg(long, value_name = "INSTANT", value_parser = instant, allow_hyphen_values = true)]
    until: Option<Timestamp>,
    /// Only messages whose id, topic, queue, key, job or last error contains this text.
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

    /// Returns whether no filter is set.
    pub(crate) fn is_empty(&self) -> bool {
        self.pairs().is_empty()
    }

    /// Adds the filter to the query of a call.
    pub(crate) fn apply(&self, call: Call) -> Call {
        self.pairs().into_iter().fold(call, |call, (name, value)| {
            let text = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
            call.with(name, Some(text))
        })
    }

    /// Returns the filter as JSON.
    pub(crate) fn body(&self) -> Value {
        let pairs = self.pairs().into_iter().map(|(name, value)| (name.to_owned(), value));
        pairs.collect::<Map<String, Value>>().into()
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &MessagesArgs) -> ExitCode {
    run_command(&arguments.connection, async |context| match &arguments.command {
        MessagesCommand::List(list) => view::list(context, list).await,
        MessagesCommand::Show(message) => view::show(context, &message.id).await,
        MessagesCommand::Why(message) => view::why(context, &message.id).await,
        MessagesCommand::Publish(publish) => publish::publish(context, publish).await,
        MessagesCommand::Cancel(selection) => {
            actions::act(context, &Action::cancel(), selection).await
        }
        MessagesCommand::Redrive(selection) => {
            actions::act(context, &Action::redrive(), selection).await
        }
        MessagesCommand::Reschedule(reschedule) => {
            reschedule::reschedule(context, reschedule).await
        }
        MessagesCommand::Reassign(reassign) => reschedule::reassign(context, reassign).await,
        MessagesCommand::Delete(selection) => {
            actions::act(context, &Action::delete(), selection).await
        }
    })
}
