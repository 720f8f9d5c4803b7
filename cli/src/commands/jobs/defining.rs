//! Making and deleting jobs.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Map, Value, json};

use super::super::given::json_text;
use crate::client::Call;
use crate::desk::Desk;
use crate::failure::Failure;
use crate::render::{moment, word};

/// A job to be.
#[derive(Debug, Args)]
pub(super) struct Create {
    /// The name; may stand in the file instead.
    name: Option<String>,
    /// The whole definition, TOML or JSON with the keys of a `[jobs.NAME]` table; flags win over it.
    #[arg(long, short, value_name = "FILE")]
    file: Option<PathBuf>,
    /// What it is for.
    #[arg(long)]
    description: Option<String>,
    /// When, as a cron text.
    #[arg(long, conflicts_with_all = ["every", "at"])]
    cron: Option<String>,
    /// When, as a length such as 5m.
    #[arg(long, value_name = "LENGTH", conflicts_with = "at")]
    every: Option<String>,
    /// When, as one instant.
    #[arg(long, value_name = "INSTANT")]
    at: Option<String>,
    /// The IANA time zone of the cron text.
    #[arg(long)]
    zone: Option<String>,
    /// Let the handler of this topic run it.
    #[arg(long, conflicts_with_all = ["url", "publish", "command", "program"])]
    topic: Option<String>,
    /// Call this URL.
    #[arg(long, conflicts_with_all = ["publish", "command", "program"])]
    url: Option<String>,
    /// The HTTP method for --url.
    #[arg(long, requires = "url")]
    method: Option<String>,
    /// Publish a message to this topic.
    #[arg(long, value_name = "TOPIC", conflicts_with_all = ["command", "program"])]
    publish: Option<String>,
    /// Run this line in a shell, where the server allows that.
    #[arg(long, value_name = "LINE", conflicts_with = "program")]
    command: Option<String>,
    /// Run this program, without a shell.
    #[arg(long, value_name = "PATH")]
    program: Option<String>,
    /// An argument for --program; may be given more than once.
    #[arg(long = "arg", value_name = "TEXT", requires = "program", allow_hyphen_values = true)]
    args: Vec<String>,
    /// A word to find it by; may be given more than once.
    #[arg(long = "tag", value_name = "WORD")]
    tags: Vec<String>,
    /// What happens while the run before is still alive: `skip`, `queue_one`, `allow`, `allow(3)` or
    /// `cancel_running`.
    #[arg(long, value_name = "POLICY")]
    overlap: Option<String>,
    /// What happens with missed occurrences: `fire_now`, `fire_once`, `fire_all` or `skip_to_next`.
    #[arg(long, value_name = "POLICY")]
    misfire: Option<String>,
    /// How often a failed run is tried again.
    #[arg(long, value_name = "N")]
    retry: Option<u32>,
    /// What becomes of a run that a crash or a stop of the server has cut off: `again` or `lost`.
    #[arg(long, value_name = "WHAT")]
    when_interrupted: Option<String>,
    /// The line its messages wait in.
    #[arg(long)]
    queue: Option<String>,
    /// How long a run may take, such as 30s.
    #[arg(long, value_name = "LENGTH")]
    timeout: Option<String>,
    /// What its handler or its templates are given: JSON, `@path` for a file, or `-`.
    #[arg(long, value_name = "JSON|@FILE|-")]
    payload: Option<String>,
}

pub(super) async fn create(desk: &Desk, create: &Create) -> Result<()> {
    let spec = spec(create)?;
    desk.show(Call::post(&["jobs"], spec.into()), |job| {
        let name = word(&job["name"]);
        match &job["next_at"] {
            Value::Null => format!("Created {name}; it will not run by its schedule."),
            next => format!(
                "Created {name}: {}. It runs next at {}.",
                word(&job["in_words"]),
                moment(next, desk.client.now())
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
        return Err(Failure::wrong("the job has no name")
            .hint("write `punctual jobs create NAME ...`, or `name` into the file")
            .into());
    }
    Ok(spec)
}

/// A definition in a file.
fn read(path: &PathBuf) -> Result<Map<String, Value>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let wrong = |why: String| Failure::wrong(format!("{}: {why}", path.display()));
    if text.trim_start().starts_with('{') {
        return Ok(serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?);
    }
    let value: Value = toml::from_str(&text).map_err(|error| wrong(error.message().to_owned()))?;
    match value {
        Value::Object(spec) if spec.contains_key("jobs") => Err(wrong(
            "this is a whole configuration; give one job without its [jobs.NAME] line".to_owned(),
        )
        .into()),
        Value::Object(spec) => Ok(spec),
        _ => Err(wrong("this is no table".to_owned()).into()),
    }
}

pub(super) async fn delete(desk: &Desk, name: &str) -> Result<()> {
    // A wrong name is told before anybody is asked.
    let job = desk.ask(Call::get(&["jobs", name])).await?;
    let runs = job["runs"].as_u64().unwrap_or_default();
    desk.confirm(&format!("Delete 1 job, {name}, which has run {runs} times"))?;
    desk.ask(Call::delete(&["jobs", name])).await?;
    desk.print(&json!({ "deleted": name }), |_| format!("Deleted {name}."))
}
