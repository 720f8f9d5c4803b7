//! `punctual subscriptions`: what an application with the dashboard receives from its transports, and pausing it.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::client::Call;
use crate::desk::{Reach, at_desk};
use crate::render::{Table, short, word};

/// Subscriptions: what is received, and for whom.
#[derive(Debug, Args)]
pub(crate) struct SubscriptionsArgs {
    #[command(flatten)]
    reach: Reach,
    #[command(subcommand)]
    command: SubscriptionsCommand,
}

/// What to do with subscriptions.
#[derive(Debug, Subcommand)]
enum SubscriptionsCommand {
    /// Every subscription of the server that is asked.
    List,
    /// Receive nothing more; what runs goes on.
    Pause(Named),
    /// Receive again.
    Resume(Named),
}

/// A subscription.
#[derive(Debug, Args)]
struct Named {
    /// The id of the subscription, as the list shows it.
    id: String,
}

/// Runs one of them.
pub(crate) fn run(arguments: &SubscriptionsArgs) -> ExitCode {
    at_desk(&arguments.reach, async |desk| {
        let steer = async |id: &str, how: &str, said: &str| {
            let call = Call::post(&["subscriptions", id, how], json!({}));
            desk.show(call, |_| format!("{id} {said}.")).await
        };
        match &arguments.command {
            SubscriptionsCommand::List => {
                desk.list(Call::get(&["subscriptions"]), "subscriptions", rows).await
            }
            SubscriptionsCommand::Pause(Named { id }) => {
                steer(id, "pause", "receives nothing more").await
            }
            SubscriptionsCommand::Resume(Named { id }) => {
                steer(id, "resume", "receives again").await
            }
        }
    })
}

/// Subscriptions, one on a line.
fn rows(items: &[Value]) -> Table {
    let mut table =
        Table::new(&["id", "topic", "group", "transport", "state", "circuit", "running"]);
    for one in items {
        let state = match (one["paused"].as_bool(), one["connected"].as_bool()) {
            (Some(true), _) => "paused",
            (_, Some(false)) => "away",
            _ => "active",
        };
        table.row([
            word(&one["id"]),
            short(&one["topic"], 40),
            short(&one["group"], 30),
            word(&one["transport"]),
            state.to_owned(),
            word(&one["circuit"]),
            word(&one["running"]),
        ]);
    }
    table
}
