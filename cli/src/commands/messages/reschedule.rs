//! Changes of pending messages: due time, queue and priority.

use anyhow::Result;
use clap::Args;
use punctual::jiff::Timestamp;
use serde_json::{Value, json};

use super::actions::{Action, Selection, act};
use crate::command_context::CommandContext;
use crate::commands::input::instant;

/// Arguments of `messages reschedule`.
#[derive(Debug, Args)]
pub(super) struct Reschedule {
    #[command(flatten)]
    selection: Selection,
    /// New due time.
    #[arg(long, value_name = "INSTANT", value_parser = instant, required_unless_present = "delay", conflicts_with = "delay")]
    at: Option<Timestamp>,
    /// New delay from now, such as 5m.
    #[arg(long, value_name = "DURATION")]
    delay: Option<String>,
}

/// Arguments of `messages reassign`.
#[derive(Debug, Args)]
pub(super) struct Reassign {
    #[command(flatten)]
    selection: Selection,
    /// New queue.
    #[arg(long, value_name = "QUEUE", required_unless_present = "priority")]
    to: Option<String>,
    /// New priority, 0 (last) to 9 (first).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=9))]
    priority: Option<u8>,
}

impl Reschedule {
    fn action(&self) -> Action {
        let (when, parameters) = match (&self.at, self.delay.as_deref().unwrap_or_default()) {
            (Some(at), _) => {
                (format!("at {}", at.strftime("%Y-%m-%d %H:%M:%SZ")), json!({ "due_at": at }))
            }
            (None, delay) => (format!("in {delay}"), json!({ "delay": delay })),
        };
        Action::change("reschedule", format!("rescheduled, due {when}"), parameters)
    }
}

impl Reassign {
    fn action(&self) -> Action {
        let mut parameters = json!({});
        let mut changes = Vec::new();
        if let Some(queue) = &self.to {
            parameters["queue"] = Value::from(queue.as_str());
            changes.push(format!("to the queue {queue}"));
        }
        if let Some(priority) = self.priority {
            parameters["priority"] = Value::from(priority);
            changes.push(format!("with priority {priority}"));
        }
        Action::change("reassign", format!("reassigned {}", changes.join(" ")), parameters)
    }
}

pub(super) async fn reschedule(context: &CommandContext, args: &Reschedule) -> Result<()> {
    act(context, &args.action(), &args.selection).await
}

pub(super) async fn reassign(context: &CommandContext, args: &Reassign) -> Result<()> {
    act(context, &args.action(), &args.selection).await
}
