//! `punctual webhooks`: lists, creates, changes and tests webhooks.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::executions;
use super::paging::Paging;
use crate::client::Call;
use crate::command_context::{CommandContext, ConnectionArgs, run_command};
use crate::error::{Code, CommandError};
use crate::render::{Table, duration_of, one_line, relative, word};
use crate::terminal::notice;

/// Largest number of characters of an error in the list.
const ERROR_LEN_MAX: usize = 100;

/// Arguments of `punctual webhooks`.
#[derive(Debug, Args)]
pub(crate) struct WebhooksArgs {
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(subcommand)]
    command: WebhooksCommand,
}

/// Commands about webhooks.
#[derive(Debug, Subcommand)]
enum WebhooksCommand {
    /// List webhooks.
    List,
    /// Create a webhook and print its secret, which is shown only once.
    Add(Add),
    /// Change the URL, the events or the filter of a webhook.
    Edit(Edit),
    /// Send a test event to a webhook and wait for the result.
    Test(WebhookId),
    /// Disable a webhook.
    Disable(WebhookId),
    /// Enable a disabled webhook.
    Enable(WebhookId),
    /// List the deliveries of a webhook.
    Deliveries(Deliveries),
    /// Delete a webhook.
    Delete(WebhookId),
}

/// Arguments of `webhooks add`.
#[derive(Debug, Args)]
struct Add {
    /// URL that receives the events.
    url: String,
    /// Events to send, separated by commas, such as attempt.failed; default: all.
    #[arg(long, value_delimiter = ',', default_value = "*")]
    events: Vec<String>,
    #[command(flatten)]
    filter: EventFilter,
}

/// Arguments of `webhooks edit`.
#[derive(Debug, Args)]
struct Edit {
    /// Id of the webhook, as `webhooks list` prints it.
    id: String,
    /// New URL.
    #[arg(long)]
    url: Option<String>,
    /// New events, separated by commas.
    #[arg(long, value_delimiter = ',')]
    events: Option<Vec<String>>,
    #[command(flatten)]
    filter: EventFilter,
    /// Remove the filter by job, topic and queue.
    #[arg(long, conflicts_with_all = ["job", "topic", "queue"])]
    no_filter: bool,
}

/// Filter of events.
#[derive(Debug, Args)]
struct EventFilter {
    /// Only events of this job.
    #[arg(long)]
    job: Option<String>,
    /// Only events of this topic.
    #[arg(long)]
    topic: Option<String>,
    /// Only events of this queue.
    #[arg(long)]
    queue: Option<String>,
}

impl EventFilter {
    fn body(&self) -> Map<String, Value> {
        let all = [("job", &self.job), ("topic", &self.topic), ("queue", &self.queue)];
        let set = all.into_iter().filter_map(|(key, value)| Some((key, value.as_ref()?)));
        set.map(|(key, value)| (key.to_owned(), value.as_str().into())).collect()
    }
}

/// Id of a webhook.
#[derive(Debug, Args)]
struct WebhookId {
    /// Id of the webhook, as `webhooks list` prints it.
    id: String,
}

/// Arguments of `webhooks deliveries`.
#[derive(Debug, Args)]
struct Deliveries {
    /// Id of the webhook.
    id: String,
    #[command(flatten)]
    paging: Paging,
}

/// Runs the command.
pub(crate) fn run(arguments: &WebhooksArgs) -> ExitCode {
    run_command(&arguments.connection, async |context| {
        let switch = async |id: &str, enabled: bool| {
            let call = Call::patch(&["webhooks", id], json!({ "enabled": enabled }));
            let word = if enabled { "enabled" } else { "disabled" };
            context.show(call, |_| format!("{id} is {word}.")).await
        };
        match &arguments.command {
            WebhooksCommand::List => {
                context
                    .list(Call::get(&["webhooks"]), "webhooks", |items| rows(context, items))
                    .await
            }
            WebhooksCommand::Add(args) => add(context, args).await,
            WebhooksCommand::Edit(args) => edit(context, args).await,
            WebhooksCommand::Test(WebhookId { id }) => test(context, id).await,
            WebhooksCommand::Disable(WebhookId { id }) => switch(id, false).await,
            WebhooksCommand::Enable(WebhookId { id }) => switch(id, true).await,
            WebhooksCommand::Deliveries(Deliveries { id, paging }) => {
                let call = paging.apply(Call::get(&["webhooks", id, "deliveries"]));
                context
                    .list(call, "deliveries", |items| executions::rows(items, context.client.now()))
                    .await
            }
            WebhooksCommand::Delete(WebhookId { id }) => {
                let webhook = context.send(Call::get(&["webhooks", id])).await?;
                context.confirm(&format!("Delete 1 webhook, to {}", word(&webhook["url"])))?;
                context.send(Call::delete(&["webhooks", id])).await?;
                context.print(&json!({ "deleted": id }), |_| format!("Deleted {id}."))
            }
        }
    })
}

/// Sends a test delivery and prints its result; fails when it was not delivered.
async fn test(context: &CommandContext, id: &str) -> Result<()> {
    let tested = context.send(Call::post(&["webhooks", id, "test"], json!({}))).await?;
    let (message, note) = (word(&tested["message"]), word(&tested["note"]));
    match tested["ending"].as_str() {
        Some("succeeded") => context.print(&tested, |tested| {
            format!("Delivered: {note}, after {}.", duration_of(&tested["took_ms"]))
        }),
        ending => {
            context.print(&tested, |_| format!("The delivery is message {message}."))?;
            let text = match ending {
                Some(_) => format!("the delivery failed: {note}"),
                None => "the delivery is still pending; no process delivers it".to_owned(),
            };
            let hint = format!("list the deliveries with `punctual webhooks deliveries {id}`");
            Err(CommandError::new(Code::Failed, text).hint(hint).into())
        }
    }
}

async fn add(context: &CommandContext, add: &Add) -> Result<()> {
    let filter = add.filter.body();
    let body = json!({ "url": add.url, "events": add.events, "filter": filter });
    let webhook = context.send(Call::post(&["webhooks"], body)).await?;
    context.print(&webhook, |webhook| word(&webhook["secret"]))?;
    if !context.json() {
        let id = word(&webhook["id"]);
        notice(&format!(
            "This is the secret that signs the deliveries of the webhook {id}; it is not shown again."
        ));
    }
    Ok(())
}

async fn edit(context: &CommandContext, edit: &Edit) -> Result<()> {
    let mut body = Map::new();
    if let Some(url) = &edit.url {
        body.insert("url".to_owned(), url.as_str().into());
    }
    if let Some(events) = &edit.events {
        body.insert("events".to_owned(), json!(events));
    }
    let filter = edit.filter.body();
    if edit.no_filter || !filter.is_empty() {
        body.insert("filter".to_owned(), filter.into());
    }
    if body.is_empty() {
        return Err(CommandError::invalid_input("no change is given")
            .hint("add one of --url, --events, --job, --topic, --queue and --no-filter")
            .into());
    }
    let call = Call::patch(&["webhooks", &edit.id], body.into());
    context
        .show(call, |webhook| {
            format!("{} receives {}.", word(&webhook["url"]), word(&webhook["events"]))
        })
        .await
}

/// Returns the table of webhooks.
fn rows(context: &CommandContext, items: &[Value]) -> Table {
    let now = context.client.now();
    let mut table =
        Table::new(&["id", "url", "status", "events", "failures", "last sent", "last error"]);
    for webhook in items {
        let status = match (webhook["enabled"].as_bool(), &webhook["disabled_reason"]) {
            (Some(false), Value::Null) => "disabled".to_owned(),
            (Some(false), reason) => format!("disabled, {}", word(reason)),
            _ => "active".to_owned(),
        };
        table.row([
            word(&webhook["id"]),
            word(&webhook["url"]),
            status,
            word(&webhook["events"]),
            word(&webhook["failures"]),
            relative(&webhook["last_at"], now),
            one_line(&word(&webhook["last_error"]), ERROR_LEN_MAX),
        ]);
    }
    table
}
