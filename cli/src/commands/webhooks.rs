//! `punctual webhooks`: who is told of which events.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::executions;
use super::paging::Paging;
use crate::client::Call;
use crate::desk::{Desk, Reach, at_desk};
use crate::failure::{Code, Failure};
use crate::render::{Table, away, one_line, took, word};
use crate::terminal::tell;

/// The most characters of a failure in a list.
const FAILURE_LEN_MAX: usize = 100;

/// Webhooks: who is told of which events.
#[derive(Debug, Args)]
pub(crate) struct WebhooksArgs {
    #[command(flatten)]
    reach: Reach,
    #[command(subcommand)]
    command: WebhooksCommand,
}

/// What to do with webhooks.
#[derive(Debug, Subcommand)]
enum WebhooksCommand {
    /// Every webhook.
    List,
    /// Create a webhook. Its secret is printed once and never again.
    Add(Add),
    /// Change where a webhook is, or what it is told.
    Edit(Edit),
    /// Send a webhook an event to try it, and wait for the answer.
    Test(Named),
    /// Stop a webhook.
    Disable(Named),
    /// Start a webhook that was disabled.
    Enable(Named),
    /// What a webhook was sent, and how that went.
    Deliveries(Deliveries),
    /// Delete a webhook.
    Delete(Named),
}

/// A webhook to be.
#[derive(Debug, Args)]
struct Add {
    /// Where events are sent.
    url: String,
    /// Which events, with commas between them, such as attempt.failed; all when not given.
    #[arg(long, value_delimiter = ',', default_value = "*")]
    events: Vec<String>,
    #[command(flatten)]
    only: Only,
}

/// What is to be different.
#[derive(Debug, Args)]
struct Edit {
    /// The id of the webhook, as the list shows it.
    id: String,
    /// Another place where events are sent.
    #[arg(long)]
    url: Option<String>,
    /// Other events, with commas between them.
    #[arg(long, value_delimiter = ',')]
    events: Option<Vec<String>>,
    #[command(flatten)]
    only: Only,
    /// Those of every job, topic and queue.
    #[arg(long, conflicts_with_all = ["job", "topic", "queue"])]
    no_filter: bool,
}

/// Which of the events.
#[derive(Debug, Args)]
struct Only {
    /// Only those of this job.
    #[arg(long)]
    job: Option<String>,
    /// Only those of this topic.
    #[arg(long)]
    topic: Option<String>,
    /// Only those of this queue.
    #[arg(long)]
    queue: Option<String>,
}

impl Only {
    fn filter(&self) -> Map<String, Value> {
        let all = [("job", &self.job), ("topic", &self.topic), ("queue", &self.queue)];
        let given = all.into_iter().filter_map(|(key, value)| Some((key, value.as_ref()?)));
        given.map(|(key, value)| (key.to_owned(), value.as_str().into())).collect()
    }
}

/// A webhook.
#[derive(Debug, Args)]
struct Named {
    /// The id of the webhook, as the list shows it.
    id: String,
}

/// How much.
#[derive(Debug, Args)]
struct Deliveries {
    /// The id of the webhook.
    id: String,
    #[command(flatten)]
    paging: Paging,
}

/// Runs one of them.
pub(crate) fn run(arguments: &WebhooksArgs) -> ExitCode {
    at_desk(&arguments.reach, async |desk| {
        let switch = async |id: &str, enabled: bool| {
            let call = Call::patch(&["webhooks", id], json!({ "enabled": enabled }));
            let word = if enabled { "enabled" } else { "disabled" };
            desk.show(call, |_| format!("{id} is {word}.")).await
        };
        match &arguments.command {
            WebhooksCommand::List => {
                desk.list(Call::get(&["webhooks"]), "webhooks", |items| rows(desk, items)).await
            }
            WebhooksCommand::Add(wanted) => add(desk, wanted).await,
            WebhooksCommand::Edit(wanted) => edit(desk, wanted).await,
            WebhooksCommand::Test(Named { id }) => test(desk, id).await,
            WebhooksCommand::Disable(Named { id }) => switch(id, false).await,
            WebhooksCommand::Enable(Named { id }) => switch(id, true).await,
            WebhooksCommand::Deliveries(Deliveries { id, paging }) => {
                let call = paging.on(Call::get(&["webhooks", id, "deliveries"]));
                desk.list(call, "deliveries", |items| executions::rows(items, desk.client.now()))
                    .await
            }
            WebhooksCommand::Delete(Named { id }) => {
                let webhook = desk.ask(Call::get(&["webhooks", id])).await?;
                desk.confirm(&format!("Delete 1 webhook, to {}", word(&webhook["url"])))?;
                desk.ask(Call::delete(&["webhooks", id])).await?;
                desk.print(&json!({ "deleted": id }), |_| format!("Deleted {id}."))
            }
        }
    })
}

/// Sends a delivery and says what came of it; fails when it did not arrive.
async fn test(desk: &Desk, id: &str) -> Result<()> {
    let tested = desk.ask(Call::post(&["webhooks", id, "test"], json!({}))).await?;
    let (message, note) = (word(&tested["message"]), word(&tested["note"]));
    match tested["ending"].as_str() {
        Some("succeeded") => desk.print(&tested, |tested| {
            format!("It arrived: {note}, after {}.", took(&tested["took_ms"]))
        }),
        ending => {
            desk.print(&tested, |_| format!("The delivery is the message {message}."))?;
            let failure = match ending {
                Some(_) => Failure::new(Code::Failed, format!("it did not arrive: {note}")),
                None => Failure::new(Code::Failed, "it has not ended yet; no process delivers it"),
            };
            let hint = format!("look at it with `punctual webhooks deliveries {id}`");
            Err(failure.hint(hint).into())
        }
    }
}

async fn add(desk: &Desk, add: &Add) -> Result<()> {
    let filter = add.only.filter();
    let body = json!({ "url": add.url, "events": add.events, "filter": filter });
    let made = desk.ask(Call::post(&["webhooks"], body)).await?;
    desk.print(&made, |made| word(&made["secret"]))?;
    if !desk.json() {
        let id = word(&made["id"]);
        tell(&format!(
            "This is the secret that signs what the webhook {id} is sent; it is not shown again."
        ));
    }
    Ok(())
}

async fn edit(desk: &Desk, edit: &Edit) -> Result<()> {
    let mut body = Map::new();
    if let Some(url) = &edit.url {
        body.insert("url".to_owned(), url.as_str().into());
    }
    if let Some(events) = &edit.events {
        body.insert("events".to_owned(), json!(events));
    }
    let filter = edit.only.filter();
    if edit.no_filter || !filter.is_empty() {
        body.insert("filter".to_owned(), filter.into());
    }
    if body.is_empty() {
        return Err(Failure::wrong("nothing is to be different")
            .hint("give one of --url, --events, --job, --topic, --queue and --no-filter")
            .into());
    }
    let call = Call::patch(&["webhooks", &edit.id], body.into());
    desk.show(call, |webhook| {
        format!("{} is told of {}.", word(&webhook["url"]), word(&webhook["events"]))
    })
    .await
}

/// Webhooks, one on a line.
fn rows(desk: &Desk, items: &[Value]) -> Table {
    let now = desk.client.now();
    let mut table =
        Table::new(&["id", "url", "status", "events", "failures", "last sent", "last failure"]);
    for webhook in items {
        let status = match (webhook["enabled"].as_bool(), &webhook["disabled_reason"]) {
            (Some(false), Value::Null) => "disabled".to_owned(),
            (Some(false), why) => format!("disabled, {}", word(why)),
            _ => "active".to_owned(),
        };
        table.row([
            word(&webhook["id"]),
            word(&webhook["url"]),
            status,
            word(&webhook["events"]),
            word(&webhook["failures"]),
            away(&webhook["last_at"], now),
            one_line(&word(&webhook["last_error"]), FAILURE_LEN_MAX),
        ]);
    }
    table
}
