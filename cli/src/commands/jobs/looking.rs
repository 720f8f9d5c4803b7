//! Looking at jobs.

use anyhow::Result;
use clap::{Args, ValueEnum};
use punctual::jiff::Timestamp;
use serde_json::Value;

use crate::client::Call;
use crate::commands::executions;
use crate::commands::paging::Paging;
use crate::desk::Desk;
use crate::render::{Table, away, facts, lines, moment, short, stamp, took, word};

/// Which jobs.
#[derive(Debug, Args)]
pub(super) struct List {
    /// Only in this phase: active, paused or retired.
    #[arg(long)]
    phase: Option<String>,
    /// Only with this tag.
    #[arg(long)]
    tag: Option<String>,
    /// Only of this application or file.
    #[arg(long)]
    app: Option<String>,
    /// Only those whose name, topic, description or tags hold this text.
    #[arg(long)]
    search: Option<String>,
    /// The order.
    #[arg(long, value_enum, default_value_t = Sort::Name)]
    sort: Sort,
    #[command(flatten)]
    paging: Paging,
}

/// The order of jobs.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Sort {
    /// By name.
    Name,
    /// Whose next run comes first.
    Next,
    /// Who ran last.
    Last,
}

/// How many times to come.
#[derive(Debug, Args)]
pub(super) struct Next {
    /// The job.
    name: String,
    /// How many.
    #[arg(long, default_value_t = 10)]
    count: u32,
}

/// How much of the past.
#[derive(Debug, Args)]
pub(super) struct History {
    /// The job.
    name: String,
    /// Every time of the schedule with what was decided about it, also what did not run.
    #[arg(long)]
    occurrences: bool,
    #[command(flatten)]
    paging: Paging,
}

pub(super) async fn list(desk: &Desk, list: &List) -> Result<()> {
    let sort = match list.sort {
        Sort::Name => None,
        Sort::Next => Some("next"),
        Sort::Last => Some("last"),
    };
    let call = Call::get(&["jobs"])
        .with("phase", list.phase.as_ref())
        .with("tag", list.tag.as_ref())
        .with("app", list.app.as_ref())
        .with("search", list.search.as_ref())
        .with("sort", sort);
    desk.list(list.paging.on(call), "jobs", |items| rows(items, desk.client.now())).await
}

/// Jobs, one on a line.
fn rows(items: &[Value], now: Timestamp) -> Table {
    let mut table = Table::new(&["name", "state", "schedule", "next", "last", "runs"]);
    for job in items {
        let last = match &job["last"] {
            Value::Null => "never".to_owned(),
            last => format!("{} {}", word(&last["ending"]), away(&last["ended_at"], now)),
        };
        table.row([
            word(&job["name"]),
            word(&job["word"]),
            short(&gist(&job["in_words"]), 44),
            away(&job["next_at"], now),
            last,
            word(&job["runs"]),
        ]);
    }
    table
}

/// A schedule in words, without what clocks do to it.
pub(crate) fn gist(in_words: &Value) -> Value {
    let words = in_words.as_str().unwrap_or_default();
    let first = words.split(';').next().unwrap_or_default();
    first.split(", counted from").next().unwrap_or_default().into()
}

pub(super) async fn show(desk: &Desk, name: &str) -> Result<()> {
    desk.show(Call::get(&["jobs", name]), |job| one(desk, job)).await
}

/// Everything about a job.
fn one(desk: &Desk, job: &Value) -> String {
    let now = desk.client.now();
    let last = match &job["last"] {
        Value::Null => "never".to_owned(),
        last => format!(
            "{} {}, took {}",
            word(&last["ending"]),
            moment(&last["ended_at"], now),
            took(&last["took_ms"])
        ),
    };
    let known = [
        ("name", word(&job["name"])),
        ("state", word(&job["word"])),
        ("paused", paused(&job["paused"], now)),
        ("broken", word(&job["broken"])),
        ("misconfigured", word(&job["misconfigured"])),
        ("description", word(&job["description"])),
        ("schedule", schedule(job)),
        ("next", moment(&job["next_at"], now)),
        ("last", last),
        ("running", word(&job["running"])),
        ("runs", word(&job["runs"])),
        ("does", target(&job["target"])),
        ("payload", word(&job["payload"])),
        ("topic", word(&job["topic"])),
        ("queue", word(&job["queue"])),
        ("tags", word(&job["tags"])),
        ("misfire", misfire(&job["misfire"])),
        ("overlap", word(&job["overlap"]["policy"])),
        (
            "attempts",
            job["retry"]["attempts_max"]
                .as_u64()
                .map_or("no limit".to_owned(), |max| max.to_string()),
        ),
        ("interrupted", interrupted(&job["when_interrupted"])),
        ("time limit", took(&job["timeout_ms"])),
        ("changed by hand", word(&job["overridden"])),
        ("skips", word(&job["skips"])),
        ("defined by", defined_by(job)),
    ];
    facts(&known)
}

/// When it runs, as a text and in words where these say more.
fn schedule(job: &Value) -> String {
    let (text, words) = (word(&job["schedule"]), word(&job["in_words"]));
    if text == words { text } else { format!("{text} ({words})") }
}

/// Who declares it. All configuration files declare under one name, whatever their own.
fn defined_by(job: &Value) -> String {
    match job["source"].as_str() {
        Some("file") => "the configuration file".to_owned(),
        _ => format!("{} ({})", word(&job["app"]), word(&job["source"])),
    }
}

/// What becomes of a run that was cut off, where that is not the usual.
fn interrupted(when: &Value) -> String {
    match when.as_str() {
        Some("lost") => "not run again".to_owned(),
        _ => "-".to_owned(),
    }
}

/// What happens with missed occurrences, and how late one has to be for that.
fn misfire(misfire: &Value) -> String {
    let policy = word(&misfire["policy"]);
    let why = match misfire["threshold_from"].as_str() {
        Some("given") => "as given",
        Some("next_occurrence") => "the distance to the next occurrence",
        Some(_) => "by default",
        None => return policy,
    };
    format!("{policy}, missed when later than {} ({why})", took(&misfire["threshold_ms"]))
}

/// Who paused something, why, and until when.
pub(crate) fn paused(pause: &Value, now: Timestamp) -> String {
    if pause.is_null() {
        return "-".to_owned();
    }
    let until = match &pause["until"] {
        Value::Null => "until somebody resumes it".to_owned(),
        until => format!("until {}", stamp(until)),
    };
    format!(
        "by {} {}, {until}: {}",
        word(&pause["by"]),
        away(&pause["at"], now),
        word(&pause["reason"])
    )
}

/// What a job does, in a line.
fn target(target: &Value) -> String {
    match target["kind"].as_str() {
        Some("http") => {
            let method = target["method"].as_str().unwrap_or("POST");
            format!("calls {method} {}", word(&target["url"]))
        }
        Some("command") => {
            let args = target["args"].as_array().map(Vec::as_slice).unwrap_or_default();
            let args: Vec<String> = args.iter().map(word).collect();
            format!("runs {} {}", word(&target["program"]), args.join(" ")).trim_end().to_owned()
        }
        Some("publish") => format!("publishes to {}", word(&target["topic"])),
        _ => "is handled by code".to_owned(),
    }
}

pub(super) async fn next(desk: &Desk, next: &Next) -> Result<()> {
    let call = Call::get(&["jobs", &next.name, "upcoming"]).with("count", Some(next.count));
    desk.list(call, "times to come", |items| times(items, desk.client.now())).await
}

/// Times to come, one on a line.
fn times(items: &[Value], now: Timestamp) -> Table {
    let mut table = Table::new(&["at", "when", "local", "zone", "note"]);
    for time in items {
        let note = match (time["skipped"].as_bool(), &time["note"]) {
            (Some(true), Value::Null) => "skipped".to_owned(),
            (Some(true), note) => format!("skipped; {}", word(note)),
            (_, Value::Null) => String::new(),
            (_, note) => word(note),
        };
        let local = word(&time["local"]).replace('T', " ");
        let zone = format!("{} {}", word(&time["zone"]), word(&time["offset"]));
        table.row([stamp(&time["at"]), away(&time["at"], now), local, zone, note]);
    }
    table
}

pub(super) async fn history(desk: &Desk, history: &History) -> Result<()> {
    let name = history.name.as_str();
    if history.occurrences {
        let call = history.paging.on(Call::get(&["jobs", name, "occurrences"]));
        return desk.list(call, "occurrences", occurrences).await;
    }
    let call = history.paging.on(Call::get(&["jobs", name, "executions"]));
    desk.list(call, "executions", |items| executions::rows(items, desk.client.now())).await
}

/// Times of a schedule with what was decided about them.
fn occurrences(items: &[Value]) -> Table {
    let mut table = Table::new(&["nominal", "decision", "late", "attempts", "reason"]);
    for one in items {
        table.row([
            stamp(&one["nominal"]),
            word(&one["decision"]),
            took(&one["late_ms"]),
            word(&one["attempts"]),
            short(&one["reason"], 80),
        ]);
    }
    table
}

/// A text of a message or a job on lines of its own, moved to the right.
pub(crate) fn indented(text: &str) -> String {
    let all = lines(text);
    let moved: Vec<String> = all.lines().map(|line| format!("  {line}")).collect();
    moved.join("\n")
}
