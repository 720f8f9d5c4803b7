//! Creation and deletion of jobs.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Map, Value, json};

use super::super::input::json_text;
use crate::client::Call;
use crate::command_context::CommandContext;
use crate::error::CommandError;
use crate::render::{moment, word};

/// Arguments of `jobs create`.
#[derive(Debug, Args)]
pub(super) struct Create {
    /// Name of the job; may be in the file instead.
    name: Option<String>,
    /// File with the definition, TOML or JSON with the keys of a `[jobs.NAME]` table; flags override it.
    #[arg(long, short, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Description of the job.
    #[arg(long)]
    description: Option<String>,
    /// Schedule as a cron expression.
    #[arg(long, conflicts_with_all = ["every", "at"])]
    cron: Option<String>,
    /// Schedule as an interval, such as 5m.
    #[arg(long, value_name = "DURATION", conflicts_with = "at")]
    every: Option<String>,
    /// Instant of a single run.
    #[arg(long, value_name = "INSTANT")]
    at: Option<String>,
    /// IANA time zone of the cron expression.
    #[arg(long)]
    zone: Option<String>,
    /// Topic whose handler runs the job.
    #[arg(long, conflicts_with_all = ["url", "publish", "command", "program"])]
    topic: Option<String>,
    /// URL to call.
    #[arg(long, conflicts_with_all = ["publish", "command", "program"])]
    url: Option<String>,
    /// HTTP method for --url.
    #[arg(long, requires = "url")]
    method: Option<String>,
    /// Topic to publish a message to.
    #[arg(long, value_name = "TOPIC", conflicts_with_all = ["command", "program"])]
    publish: Option<String>,
    /// Shell command to run, if the server allows commands.
    #[arg(long, value_name = "LINE", conflicts_with = "program")]
    command: Option<String>,
    /// Program to run without a shell, if the server allows commands.
    #[arg(long, value_name = "PATH")]
    program: Option<String>,
    /// Argument for --program; may be repeated.
    #[arg(long = "arg", value_name = "TEXT", requires = "program", allow_hyphen_values = true)]
    args: Vec<String>,
    /// Tag of the job; may be repeated.
    #[arg(long = "tag", value_name = "WORD")]
    tags: Vec<String>,
    /// Policy while the previous run is active: `skip`, `queue_one`, `allow`, `allow(3)` or `cancel_running`.
    #[arg(long, value_name = "POLICY")]
    overlap: Option<String>,
    /// Policy for missed occurrences: `fire_now`, `fire_once`, `fire_all` or `skip_to_next`.
    #[arg(long, value_name = "POLICY")]
    misfire: Option<String>,
    /// Largest number of retries of a failed run.
    #[arg(long, value_name = "N")]
    retry: Option<u32>,
    /// Policy for a run that a crash or a stop of the server interrupted: `again` or `lost`.
    #[arg(long, value_name = "POLICY")]
    when_interrupted: Option<String>,
    /// Queue of its messages.
    #[arg(long)]
    queue: Option<String>,
    /// Timeout of a run, such as 30s.
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,
    /// Payload for its handler or templates: JSON, `@path` for a file, or `-` for standard input.
    #[arg(long, value_name = "JSON|@FILE|-")]
    payload: Option<String>,
}

pub(super) async fn create(context: &CommandContext, create: &Create) -> Result<()> {
    let spec = spec(create)?;
    context
        .show(Call::post(&["jobs"], spec.into()), |job| {
            let name = word(&job["name"]);
            match &job["next_at"] {
                Value::Null => format!("Created {name}; its schedule has no next run."),
                next => format!(
                    "Created {name}: {}. It runs next at {}.",
                    word(&job["in_words"]),
                    moment(next, context.client.now())
                ),
            }
        })
        .await
}

fn spec(create: &Create) -> Result<Map<String, Value>> {
    let mut spec = create.file.as_ref().map_or_else(|| Ok(Map::new()), read)?;
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            spec.insert(key.to_owned(), value);
        }
    };
    let text = |text: &Option<String>| text.clone().map(Value::String);
    put("name", text(&create.name));
    put("description", text(&create.description));
    put("cron", text(&create.cron));
    put("every", text(&create.every));
    put("at", text(&create.at));
    put("zone", text(&create.zone));
    put("topic", text(&create.topic));
    put("queue", text(&create.queue));
    put("timeout", text(&create.timeout));
    put("overlap", text(&create.overlap));
    put("misfire", text(&create.misfire));
    put("retry", create.retry.map(Value::from));
    put("when_interrupted", text(&create.when_interrupted));
    put("tags", (!create.tags.is_empty()).then(|| json!(create.tags)));
    put("publish", create.publish.as_ref().map(|topic| json!({ "topic": topic })));
    put(
        "http",
        create.url.as_ref().map(|url| match &create.method {
            Some(method) => json!({ "url": url, "method": method }),
            None => json!({ "url": url }),
        }),
    );
    put("command", create.command.as_ref().map(|line| json!({ "program": line, "shell": true })));
    put(
        "command",
        create.program.as_ref().map(|program| json!({ "program": program, "args": create.args })),
    );
    put("payload", create.payload.as_ref().map(|text| json_text(text, "the payload")).transpose()?);
    if !spec.contains_key("name") {
        return Err(CommandError::invalid_input("the job has no name")
            .hint("write `punctual jobs create NAME ...`, or set `name` in the file")
            .into());
    }
    Ok(spec)
}

/// Reads a definition from a file.
fn read(path: &PathBuf) -> Result<Map<String, Value>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let invalid = |why: String| CommandError::invalid_input(format!("{}: {why}", path.display()));
    if text.trim_start().starts_with('{') {
        return Ok(serde_json::from_str(&text).map_err(|error| invalid(error.to_string()))?);
    }
    let value: Value =
        toml::from_str(&text).map_err(|error| invalid(error.message().to_owned()))?;
    match value {
        Value::Object(spec) if spec.contains_key("jobs") => Err(invalid(
            "this is a whole configuration; use one job without its [jobs.NAME] line".to_owned(),
        )
        .into()),
        Value::Object(spec) => Ok(spec),
        _ => Err(invalid("this is not a table".to_owned()).into()),
    }
}

pub(super) async fn delete(context: &CommandContext, name: &str) -> Result<()> {
    // An unknown name fails before the confirmation.
    let job = context.send(Call::get(&["jobs", name])).await?;
    let runs = job["runs"].as_u64().unwrap_or_default();
    context.confirm(&format!("Delete 1 job, {name}, which has run {runs} times"))?;
    context.send(Call::delete(&["jobs", name])).await?;
    context.print(&json!({ "deleted": name }), |_| format!("Deleted {name}."))
}
