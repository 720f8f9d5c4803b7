//! `punctual subscriptions`: lists, pauses and resumes the subscriptions of an application with the dashboard.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::client::Call;
use crate::command_context::{ConnectionArgs, run_command};
use crate::render::{Table, short, word};

/// Arguments of `punctual subscriptions`.
#[derive(Debug, Args)]
pub(crate) struct SubscriptionsArgs {
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(subcommand)]
    command: SubscriptionsCommand,
}

/// Commands about subscriptions.
#[derive(Debug, Subcommand)]
enum SubscriptionsCommand {
    /// List the subscriptions of the server.
    List,
    /// Pause a subscription; running messages continue.
    Pause(SubscriptionId),
    /// Resume a paused subscription.
    Resume(SubscriptionId),
}

/// Id of a subscription.
#[derive(Debug, Args)]
struct SubscriptionId {
    /// Id of the subscription, as `subscriptions list` prints it.
    id: String,
}

/// Runs the command.
pub(crate) fn run(arguments: &SubscriptionsArgs) -> ExitCode {
    run_command(&arguments.connection, async |context| {
        let change = async |id: &str, action: &str, past: &str| {
            let call = Call::post(&["subscriptions", id, action], json!({}));
            context.show(call, |_| format!("{id} is {past}.")).await
        };
        match &arguments.command {
            SubscriptionsCommand::List => {
                context.list(Call::get(&["subscriptions"]), "subscriptions", rows).await
            }
            SubscriptionsCommand::Pause(SubscriptionId { id }) => {
                change(id, "pause", "paused").await
            }
            SubscriptionsCommand::Resume(SubscriptionId { id }) => {
                change(id, "resume", "resumed").await
            }
        }
    })
}

/// Returns the table of subscriptions.
fn rows(items: &[Value]) -> Table {
    let mut table =
        Table::new(&["id", "topic", "group", "transport", "state", "circuit", "running"]);
    for one in items {
        let state = match (one["paused"].as_bool(), one["connected"].as_bool()) {
            (Some(true), _) => "paused",
            (_, Some(false)) => "disconnected",
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
