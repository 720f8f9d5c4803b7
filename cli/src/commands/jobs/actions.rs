//! Job actions: trigger, pause, resume, skip, edit, reset and backfill.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use punctual::clock::{Clock, SystemClock, add};
use punctual::jiff::Timestamp;
use punctual::schedule::parse_duration;
use serde_json::{Map, Value, json};

use super::super::input::{instant, json_text};
use crate::client::Call;
use crate::command_context::CommandContext;
use crate::error::CommandError;
use crate::render::{counted, moment, stamp, word};

/// Arguments of `jobs trigger`.
#[derive(Debug, Args)]
pub(super) struct Trigger {
    /// Name of the job.
    name: String,
    /// Run it even when a run is active.
    #[arg(long)]
    ignore_overlap: bool,
    /// Payload of this run: JSON, `@path` for a file, or `-` for standard input.
    #[arg(long, value_name = "JSON|@FILE|-")]
    payload: Option<String>,
}

/// Arguments of `jobs pause`.
#[derive(Debug, Args)]
pub(super) struct Pause {
    /// Name of the job.
    name: String,
    /// Reason, shown to other operators.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    until: Until,
}

/// End of a pause.
#[derive(Debug, Args)]
pub(crate) struct Until {
    /// Resume automatically at this instant.
    #[arg(long, value_name = "INSTANT", value_parser = instant, allow_hyphen_values = true)]
    until: Option<Timestamp>,
    /// Resume automatically after this duration, such as 2h.
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration, conflicts_with = "until")]
    duration: Option<Duration>,
}

impl Until {
    /// Returns the end of the pause, if any.
    pub(crate) fn instant(&self) -> Option<Timestamp> {
        self.until.or_else(|| self.duration.map(|duration| add(SystemClock.now(), duration)))
    }
}

/// Arguments of `jobs skip`.
#[derive(Debug, Args)]
pub(super) struct Skip {
    /// Name of the job.
    name: String,
    /// Occurrence to skip; default: the next one.
    #[arg(long, value_name = "INSTANT", value_parser = instant, allow_hyphen_values = true)]
    at: Option<Timestamp>,
}

/// Arguments of `jobs edit`.
#[derive(Debug, Args)]
pub(super) struct Edit {
    /// Name of the job.
    name: String,
    /// New cron expression.
    #[arg(long, value_name = "CRON")]
    cron: Option<String>,
    /// New IANA time zone.
    #[arg(long)]
    zone: Option<String>,
    /// New interval, such as 5m.
    #[arg(long, value_name = "DURATION", conflicts_with = "cron")]
    every: Option<String>,
    /// Largest number of retries of a failed run.
    #[arg(long, value_name = "N")]
    retry: Option<u32>,
    /// Timeout of a run, such as 30s, or `none`.
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,
    /// Policy for missed occurrences: `fire_now`, `fire_once`, `fire_all` or `skip_to_next`.
    #[arg(long, value_name = "POLICY")]
    misfire: Option<String>,
}

/// Arguments of `jobs backfill`.
#[derive(Debug, Args)]
pub(super) struct Backfill {
    /// Name of the job.
    name: String,
    /// Start of the range.
    #[arg(long, value_name = "INSTANT", value_parser = instant, allow_hyphen_values = true)]
    from: Timestamp,
    /// End of the range; default: now.
    #[arg(long, value_name = "INSTANT", value_parser = instant, allow_hyphen_values = true)]
    to: Option<Timestamp>,
    /// Include occurrences that have run.
    #[arg(long)]
    all: bool,
    /// Largest number of runs, 1 to 10000.
    #[arg(long, value_name = "N", default_value_t = 100)]
    max: u32,
    /// Run the newest occurrences first; default: the oldest.
    #[arg(long)]
    newest: bool,
    /// Label that distinguishes two backfills of the same range.
    #[arg(long, default_value = "")]
    label: String,
    /// Print what would run, without running it.
    #[arg(long)]
    dry_run: bool,
}

pub(super) async fn trigger(context: &CommandContext, trigger: &Trigger) -> Result<()> {
    let mut body = Map::new();
    if trigger.ignore_overlap {
        body.insert("ignore_overlap".to_owned(), true.into());
    }
    if let Some(text) = &trigger.payload {
        body.insert("payload".to_owned(), json_text(text, "the payload")?);
    }
    let call = Call::post(&["jobs", &trigger.name, "trigger"], body.into());
    context
        .show(call, |response| {
            let paused = match response["paused"].as_bool() {
                Some(true) => "; the job stays paused",
                _ => "",
            };
            format!(
                "{} is triggered as message {}{paused}.",
                trigger.name,
                word(&response["message"])
            )
        })
        .await
}

pub(super) async fn pause(context: &CommandContext, pause: &Pause) -> Result<()> {
    let mut body = json!({ "reason": pause.reason });
    if let Some(until) = pause.until.instant() {
        body["until"] = until.to_string().into();
    }
    let call = Call::post(&["jobs", &pause.name, "pause"], body);
    context
        .show(call, |job| match &job["paused"]["until"] {
            Value::Null => format!("{} is paused until it is resumed.", pause.name),
            until => format!("{} is paused until {}.", pause.name, stamp(until)),
        })
        .await
}

pub(super) async fn resume(context: &CommandContext, name: &str) -> Result<()> {
    let call = Call::post(&["jobs", name, "resume"], json!({}));
    context.show(call, |job| next_run(context, name, job)).await
}

/// Returns a sentence about the next run of a job.
fn next_run(context: &CommandContext, name: &str, job: &Value) -> String {
    match &job["next_at"] {
        Value::Null => format!("{name} is {}.", word(&job["phase"])),
        next => format!("{name} runs next at {}.", moment(next, context.client.now())),
    }
}

pub(super) async fn skip(context: &CommandContext, skip: &Skip) -> Result<()> {
    let body = skip.at.map_or_else(|| json!({}), |at| json!({ "nominal": at.to_string() }));
    let call = Call::post(&["jobs", &skip.name, "skip"], body);
    context
        .show(call, |response| {
            format!("{} skips the occurrence of {}.", skip.name, stamp(&response["nominal"]))
        })
        .await
}

pub(super) async fn edit(context: &CommandContext, edit: &Edit) -> Result<()> {
    let mut body = Map::new();
    let texts = [
        ("cron", &edit.cron),
        ("zone", &edit.zone),
        ("every", &edit.every),
        ("misfire", &edit.misfire),
    ];
    for (field, text) in texts {
        if let Some(text) = text {
            body.insert(field.to_owned(), text.as_str().into());
        }
    }
    if let Some(retries) = edit.retry {
        body.insert("retry".to_owned(), retries.into());
    }
    if let Some(timeout) = &edit.timeout {
        let none = timeout.eq_ignore_ascii_case("none");
        body.insert("timeout".to_owned(), if none { Value::Null } else { timeout.as_str().into() });
    }
    if body.is_empty() {
        return Err(CommandError::invalid_input("no change is given")
            .hint("add one of --cron, --zone, --every, --retry, --timeout and --misfire")
            .into());
    }
    let call = Call::patch(&["jobs", &edit.name], body.into());
    context.show(call, |job| {
        let name = &edit.name;
        let overridden = word(&job["overridden"]);
        let next = next_run(context, name, job);
        format!("Overridden in {name}: {overridden}. `punctual jobs reset {name}` removes the override.\n{next}")
    })
    .await
}

pub(super) async fn reset(context: &CommandContext, name: &str, field: Option<&str>) -> Result<()> {
    let body = field.map_or_else(|| json!({}), |field| json!({ "field": field }));
    let call = Call::post(&["jobs", name, "reset"], body);
    context
        .show(call, |job| {
            let remaining = match job["overridden"].as_array() {
                Some(fields) if !fields.is_empty() => {
                    format!("Still overridden: {}.", word(&job["overridden"]))
                }
                _ => format!("{name} has its defined settings."),
            };
            format!("{remaining}\n{}", next_run(context, name, job))
        })
        .await
}

pub(super) async fn backfill(context: &CommandContext, backfill: &Backfill) -> Result<()> {
    let to = if let Some(to) = backfill.to {
        to
    } else {
        // The server's clock is known from a response.
        context.send(Call::get(&["jobs", &backfill.name])).await?;
        context.client.now()
    };
    let mut body = json!({
        "from": backfill.from.to_string(),
        "to": to.to_string(),
        "which": if backfill.all { "all" } else { "missing" },
        "order": if backfill.newest { "newest" } else { "oldest" },
        "max": backfill.max,
        "label": backfill.label,
        "dry_run": true,
    });
    let path = ["jobs", backfill.name.as_str(), "backfill"];
    let planned = context.send(Call::post(&path, body.clone())).await?;
    let count = planned["nominals"].as_array().map_or(0, Vec::len) as u64;
    if backfill.dry_run || count == 0 {
        return context.print(&planned, |planned| plan_text(&backfill.name, planned));
    }
    context.confirm(&format!(
        "Run {} of the job {}",
        counted(count, "occurrence"),
        backfill.name
    ))?;
    body["dry_run"] = false.into();
    context.show(Call::post(&path, body), |done| {
        let stored = done["stored"].as_u64().unwrap_or_default();
        let mut text = format!("{} of {} will run.", counted(stored, "occurrence"), backfill.name);
        if let Some(duplicates) = done["duplicates"].as_u64().filter(|count| *count > 0) {
            text = format!(
                "{text} {duplicates} were backfilled before; use another --label to run them again."
            );
        }
        with_more(text, done)
    })
    .await
}

/// Returns the occurrences that a backfill would run.
fn plan_text(name: &str, planned: &Value) -> String {
    let nominals = planned["nominals"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut lines: Vec<String> = nominals.iter().map(stamp).collect();
    let present = planned["present"].as_u64().unwrap_or_default();
    let count = nominals.len() as u64;
    lines.push(format!(
        "{} of {name} would run; {present} have run already.",
        counted(count, "occurrence")
    ));
    with_more(lines.join("\n"), planned)
}

/// Adds a note when the range has more occurrences than the limit.
fn with_more(text: String, response: &Value) -> String {
    if response["more"].as_bool() == Some(true) {
        return format!("{text}\nThe range has more occurrences; raise --max or run it again.");
    }
    text
}
