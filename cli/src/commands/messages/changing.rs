//! Changing what waits: when it is due, in which queue, how urgent it is. For those that are named, or all that
//! match.

use anyhow::Result;
use clap::Args;
use punctual::jiff::Timestamp;
use serde_json::{Value, json};

use super::acting::{Chosen, Deed, act};
use crate::commands::given::instant;
use crate::desk::Desk;

/// Which messages, and when instead.
#[derive(Debug, Args)]
pub(super) struct Reschedule {
    #[command(flatten)]
    chosen: Chosen,
    /// At this instant.
    #[arg(long, value_name = "INSTANT", value_parser = instant, required_unless_present = "delay", conflicts_with = "delay")]
    at: Option<Timestamp>,
    /// So long from now, such as 5m.
    #[arg(long, value_name = "LENGTH")]
    delay: Option<String>,
}

/// Which messages, and where instead.
#[derive(Debug, Args)]
pub(super) struct Reassign {
    #[command(flatten)]
    chosen: Chosen,
    /// Into this queue.
    #[arg(long, value_name = "QUEUE", required_unless_present = "priority")]
    to: Option<String>,
    /// How urgent: 0 is last, 9 is first.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=9))]
    priority: Option<u8>,
}

impl Reschedule {
    fn deed(&self) -> Deed {
        let (when, with) = match (&self.at, self.delay.as_deref().unwrap_or_default()) {
            (Some(at), _) => {
                (format!("at {}", at.strftime("%Y-%m-%d %H:%M:%SZ")), json!({ "due_at": at }))
            }
            (None, delay) => (format!("in {delay}"), json!({ "delay": delay })),
        };
        Deed::change("reschedule", format!("rescheduled, due {when}"), with)
    }
}

impl Reassign {
    fn deed(&self) -> Deed {
        let mut with = json!({});
        let mut said = Vec::new();
        if let Some(queue) = &self.to {
            with["queue"] = Value::from(queue.as_str());
            said.push(format!("to the queue {queue}"));
        }
        if let Some(priority) = self.priority {
            with["priority"] = Value::from(priority);
            said.push(format!("with priority {priority}"));
        }
        Deed::change("reassign", format!("reassigned {}", said.join(" ")), with)
    }
}

pub(super) async fn reschedule(desk: &Desk, wanted: &Reschedule) -> Result<()> {
    act(desk, &wanted.deed(), &wanted.chosen).await
}

pub(super) async fn reassign(desk: &Desk, wanted: &Reassign) -> Result<()> {
    act(desk, &wanted.deed(), &wanted.chosen).await
}
