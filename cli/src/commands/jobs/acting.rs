//! Steering jobs.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use punctual::clock::{Clock, SystemClock, add};
use punctual::jiff::Timestamp;
use punctual::schedule::parse_duration;
use serde_json::{Map, Value, json};

use super::super::given::{instant, json_text};
use crate::client::Call;
use crate::desk::Desk;
use crate::failure::Failure;
use crate::render::{counted, moment, stamp, word};

/// How to run a job by hand.
#[derive(Debug, Args)]
pub(super) struct Trigger {
    /// The job.
    name: String,
    /// Run it also while it runs already.
    #[arg(long)]
    ignore_overlap: bool,
    /// What it is given this once: JSON, `@path` for a file, or `-` for standard input.
    #[arg(long, value_name = "JSON|@FILE|-")]
    payload: Option<String>,
}

/// Why, and how long.
#[derive(Debug, Args)]
pub(super) struct Pause {
    /// The job.
    name: String,
    /// Why; the next person on call reads it.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    until: Until,
}

/// When a pause ends by itself.
#[derive(Debug, Args)]
pub(crate) struct Until {
    /// Resume by itself at this instant.
    #[arg(long, value_name = "INSTANT", value_parser = instant, allow_hyphen_values = true)]
    until: Option<Timestamp>,
    /// Resume by itself after this long, such as 2h.
    #[arg(long = "for", value_name = "LENGTH", value_parser = parse_duration, conflicts_with = "until")]
    length: Option<Duration>,
}

impl Until {
    /// The instant, whichever way it was said.
    pub(crate) fn instant(&self) -> Option<Timestamp> {
        self.until.or_else(|| self.length.map(|length| add(SystemClock.now(), length)))
    }
}

/// Which occurrence.
#[derive(Debug, Args)]
pub(super) struct Skip {
    /// The job.
    name: String,
    /// The occurrence; the next one when not given.
    #[arg(long, value_name = "INSTANT", value_parser = instant, allow_hyphen_values = true)]
    at: Option<Timestamp>,
}

/// What is to be different.
#[derive(Debug, Args)]
pub(super) struct Edit {
    /// The job.
    name: String,
    /// Another cron text.
    #[arg(long, value_name = "CRON")]
    cron: Option<String>,
    /// Another IANA time zone.
    #[arg(long)]
    zone: Option<String>,
    /// Every so often instead, such as 5m.
    #[arg(long, value_name = "LENGTH", conflicts_with = "cron")]
    every: Option<String>,
    /// How often a failed run is tried again.
    #[arg(long, value_name = "N")]
    retry: Option<u32>,
    /// How long a run may take, such as 30s, or `none`.
    #[arg(long, value_name = "LENGTH")]
    timeout: Option<String>,
    /// What happens with missed occurrences: `fire_now`, `fire_once`, `fire_all` or `skip_to_next`.
    #[arg(long, value_name = "POLICY")]
    misfire: Option<String>,
}

/// Which part of the past.
#[derive(Debug, Args)]
pub(super) struct Backfill {
    /// The job.
    name: String,
    /// From this instant on.
    #[arg(long, value_name = "INSTANT", value_parser = instant, allow_hyphen_values = true)]
    from: Timestamp,
    /// Up to this instant; now when not given.
    #[arg(long, value_name = "INSTANT", value_parser = instant, allow_hyphen_values = true)]
    to: Option<Timestamp>,
    /// Also those that have run.
    #[arg(long)]
    all: bool,
    /// The most runs, 1 to 10000.
    #[arg(long, value_name = "N", default_value_t = 100)]
    max: u32,
    /// The newest first; otherwise the oldest.
    #[arg(long)]
    newest: bool,
    /// Tells two backfills of the same range apart.
    #[arg(long, default_value = "")]
    label: String,
    /// Only say what would run.
    #[arg(long)]
    dry_run: bool,
}

pub(super) async fn trigger(desk: &Desk, trigger: &Trigger) -> Result<()> {
    let mut body = Map::new();
    if trigger.ignore_overlap {
        body.insert("ignore_overlap".to_owned(), true.into());
    }
    if let Some(text) = &trigger.payload {
        body.insert("payload".to_owned(), json_text(text, "the payload")?);
    }
    let call = Call::post(&["jobs", &trigger.name, "trigger"], body.into());
    desk.show(call, |answer| {
        let paused = match answer["paused"].as_bool() {
            Some(true) => "; it is paused, so its schedule still fires nothing",
            _ => "",
        };
        format!(
            "{} is triggered; its message is {}{paused}",
            trigger.name,
            word(&answer["message"])
        )
    })
    .await
}

pub(super) async fn pause(desk: &Desk, pause: &Pause) -> Result<()> {
    let mut body = json!({ "reason": pause.reason });
    if let Some(until) = pause.until.instant() {
        body["until"] = until.to_string().into();
    }
    let call = Call::post(&["jobs", &pause.name, "pause"], body);
    desk.show(call, |job| match &job["paused"]["until"] {
        Value::Null => format!("{} is paused until somebody resumes it.", pause.name),
        until => format!("{} is paused until {}.", pause.name, stamp(until)),
    })
    .await
}

pub(super) async fn resume(desk: &Desk, name: &str) -> Result<()> {
    let call = Call::post(&["jobs", name, "resume"], json!({}));
    desk.show(call, |job| fires(desk, name, job)).await
}

/// That a job fires, and when next.
fn fires(desk: &Desk, name: &str, job: &Value) -> String {
    match &job["next_at"] {
        Value::Null => format!("{name} is {}.", word(&job["phase"])),
        next => format!("{name} runs next at {}.", moment(next, desk.client.now())),
    }
}

pub(super) async fn skip(desk: &Desk, skip: &Skip) -> Result<()> {
    let body = skip.at.map_or_else(|| json!({}), |at| json!({ "nominal": at.to_string() }));
    let call = Call::post(&["jobs", &skip.name, "skip"], body);
    desk.show(call, |answer| {
        format!("{} skips its run of {}.", skip.name, stamp(&answer["nominal"]))
    })
    .await
}

pub(super) async fn edit(desk: &Desk, edit: &Edit) -> Result<()> {
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
        return Err(Failure::wrong("nothing is to be different")
            .hint("give one of --cron, --zone, --every, --retry, --timeout and --misfire")
            .into());
    }
    let call = Call::patch(&["jobs", &edit.name], body.into());
    desk.show(call, |job| {
        let name = &edit.name;
        let changed = word(&job["overridden"]);
        let next = fires(desk, name, job);
        format!("Changed by hand in {name}: {changed}. `punctual jobs reset {name}` takes it back.\n{next}")
    })
    .await
}

pub(super) async fn reset(desk: &Desk, name: &str, field: Option<&str>) -> Result<()> {
    let body = field.map_or_else(|| json!({}), |field| json!({ "field": field }));
    let call = Call::post(&["jobs", name, "reset"], body);
    desk.show(call, |job| {
        let left = match job["overridden"].as_array() {
            Some(fields) if !fields.is_empty() => {
                format!("Still changed by hand: {}.", word(&job["overridden"]))
            }
            _ => format!("{name} is as it was defined."),
        };
        format!("{left}\n{}", fires(desk, name, job))
    })
    .await
}

pub(super) async fn backfill(desk: &Desk, backfill: &Backfill) -> Result<()> {
    let to = if let Some(to) = backfill.to {
        to
    } else {
        // Now is what the clock there shows, which an answer tells.
        desk.ask(Call::get(&["jobs", &backfill.name])).await?;
        desk.client.now()
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
    let planned = desk.ask(Call::post(&path, body.clone())).await?;
    let count = planned["nominals"].as_array().map_or(0, Vec::len) as u64;
    if backfill.dry_run || count == 0 {
        return desk.print(&planned, |planned| plan(&backfill.name, planned));
    }
    desk.confirm(&format!("Run {} of the job {}", counted(count, "occurrence"), backfill.name))?;
    body["dry_run"] = false.into();
    desk.show(Call::post(&path, body), |done| {
        let stored = done["stored"].as_u64().unwrap_or_default();
        let mut text = format!("{} of {} will run.", counted(stored, "occurrence"), backfill.name);
        if let Some(twice) = done["duplicates"].as_u64().filter(|count| *count > 0) {
            text = format!(
                "{text} {twice} were asked for before; use another --label to run them again."
            );
        }
        more(text, done)
    })
    .await
}

/// What a backfill would do.
fn plan(name: &str, planned: &Value) -> String {
    let nominals = planned["nominals"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut lines: Vec<String> = nominals.iter().map(stamp).collect();
    let present = planned["present"].as_u64().unwrap_or_default();
    let count = nominals.len() as u64;
    lines.push(format!(
        "{} of {name} would run; {present} have run already.",
        counted(count, "occurrence")
    ));
    more(lines.join("\n"), planned)
}

fn more(text: String, answer: &Value) -> String {
    if answer["more"].as_bool() == Some(true) {
        return format!("{text}\nThe range holds more; raise --max or run it again.");
    }
    text
}
