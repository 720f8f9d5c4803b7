//! Views of jobs: the list, one job, its next runs and its history.

use anyhow::Result;
use clap::{Args, ValueEnum};
use punctual::jiff::Timestamp;
use serde_json::Value;

use crate::client::Call;
use crate::command_context::CommandContext;
use crate::commands::executions;
use crate::commands::paging::Paging;
use crate::render::{Table, duration_of, facts, lines, moment, relative, short, stamp, word};

/// Arguments of `jobs list`.
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
    /// Only jobs whose name, topic, description or tags contain this text.
    #[arg(long)]
    search: Option<String>,
    /// Sort order.
    #[arg(long, value_enum, default_value_t = Sort::Name)]
    sort: Sort,
    #[command(flatten)]
    paging: Paging,
}

/// Sort order of jobs.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Sort {
    /// By name.
    Name,
    /// By the next run, soonest first.
    Next,
    /// By the last run, newest first.
    Last,
}

/// Arguments of `jobs next`.
#[derive(Debug, Args)]
pub(super) struct Next {
    /// Name of the job.
    name: String,
    /// Number of runs.
    #[arg(long, default_value_t = 10)]
    count: u32,
}

/// Arguments of `jobs history`.
#[derive(Debug, Args)]
pub(super) struct History {
    /// Name of the job.
    name: String,
    /// List all occurrences with their decision, including those that did not run.
    #[arg(long)]
    occurrences: bool,
    #[command(flatten)]
    paging: Paging,
}

pub(super) async fn list(context: &CommandContext, list: &List) -> Result<()> {
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
    context.list(list.paging.apply(call), "jobs", |items| rows(items, context.client.now())).await
}

/// Returns the table of jobs.
fn rows(items: &[Value], now: Timestamp) -> Table {
    let mut table = Table::new(&["name", "state", "schedule", "next", "last", "runs"]);
    for job in items {
        let last = match &job["last"] {
            Value::Null => "never".to_owned(),
            last => format!("{} {}", word(&last["ending"]), relative(&last["ended_at"], now)),
        };
        table.row([
            word(&job["name"]),
            word(&job["word"]),
            short(&short_schedule(&job["in_words"]), 44),
            relative(&job["next_at"], now),
            last,
            word(&job["runs"]),
        ]);
    }
    table
}

/// Returns a schedule in words, without notes about clock changes.
pub(crate) fn short_schedule(in_words: &Value) -> Value {
    let words = in_words.as_str().unwrap_or_default();
    let first = words.split(';').next().unwrap_or_default();
    first.split(", counted from").next().unwrap_or_default().into()
}

pub(super) async fn show(context: &CommandContext, name: &str) -> Result<()> {
    context.show(Call::get(&["jobs", name]), |job| details(context, job)).await
}

/// Returns the details of a job.
fn details(context: &CommandContext, job: &Value) -> String {
    let now = context.client.now();
    let last = match &job["last"] {
        Value::Null => "never".to_owned(),
        last => format!(
            "{} {}, took {}",
            word(&last["ending"]),
            moment(&last["ended_at"], now),
            duration_of(&last["took_ms"])
        ),
    };
    let rows = [
        ("name", word(&job["name"])),
        ("state", word(&job["word"])),
        ("paused", pause_summary(&job["paused"], now)),
        ("broken", word(&job["broken"])),
        ("misconfigured", word(&job["misconfigured"])),
        ("description", word(&job["description"])),
        ("schedule", schedule(job)),
        ("next", moment(&job["next_at"], now)),
        ("last", last),
        ("running", word(&job["running"])),
        ("runs", word(&job["runs"])),
        ("target", target(&job["target"])),
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
        ("timeout", duration_of(&job["timeout_ms"])),
        ("overridden", word(&job["overridden"])),
        ("skips", word(&job["skips"])),
        ("defined by", defined_by(job)),
    ];
    facts(&rows)
}

/// Returns the schedule, with its description where that differs.
fn schedule(job: &Value) -> String {
    let (text, words) = (word(&job["schedule"]), word(&job["in_words"]));
    if text == words { text } else { format!("{text} ({words})") }
}

/// Returns the source of a job. All configuration files share one application name.
fn defined_by(job: &Value) -> String {
    match job["source"].as_str() {
        Some("file") => "the configuration file".to_owned(),
        _ => format!("{} ({})", word(&job["app"]), word(&job["source"])),
    }
}

/// Returns the policy for interrupted runs, when it is not the default.
fn interrupted(when: &Value) -> String {
    match when.as_str() {
        Some("lost") => "not retried".to_owned(),
        _ => "-".to_owned(),
    }
}

/// Returns the misfire policy, and how late an occurrence is when it counts as missed.
fn misfire(misfire: &Value) -> String {
    let policy = word(&misfire["policy"]);
    let source = match misfire["threshold_from"].as_str() {
        Some("given") => "configured",
        Some("next_occurrence") => "the time to the next occurrence",
        Some(_) => "default",
        None => return policy,
    };
    format!("{policy}, missed when later than {} ({source})", duration_of(&misfire["threshold_ms"]))
}

/// Returns a pause: the user, the reason and the end.
pub(crate) fn pause_summary(pause: &Value, now: Timestamp) -> String {
    if pause.is_null() {
        return "-".to_owned();
    }
    let until = match &pause["until"] {
        Value::Null => "until it is resumed".to_owned(),
        until => format!("until {}", stamp(until)),
    };
    format!(
        "by {} {}, {until}: {}",
        word(&pause["by"]),
        relative(&pause["at"], now),
        word(&pause["reason"])
    )
}

/// Returns the target of a job.
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
        _ => "handled by code".to_owned(),
    }
}

pub(super) async fn next(context: &CommandContext, next: &Next) -> Result<()> {
    let call = Call::get(&["jobs", &next.name, "upcoming"]).with("count", Some(next.count));
    context.list(call, "next runs", |items| next_runs(items, context.client.now())).await
}

/// Returns the table of next runs.
fn next_runs(items: &[Value], now: Timestamp) -> Table {
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
        table.row([stamp(&time["at"]), relative(&time["at"], now), local, zone, note]);
    }
    table
}

pub(super) async fn history(context: &CommandContext, history: &History) -> Result<()> {
    let name = history.name.as_str();
    if history.occurrences {
        let call = history.paging.apply(Call::get(&["jobs", name, "occurrences"]));
        return context.list(call, "occurrences", occurrences).await;
    }
    let call = history.paging.apply(Call::get(&["jobs", name, "executions"]));
    context.list(call, "executions", |items| executions::rows(items, context.client.now())).await
}

/// Returns the table of occurrences and their decisions.
fn occurrences(items: &[Value]) -> Table {
    let mut table = Table::new(&["nominal", "decision", "late", "attempts", "reason"]);
    for one in items {
        table.row([
            stamp(&one["nominal"]),
            word(&one["decision"]),
            duration_of(&one["late_ms"]),
            word(&one["attempts"]),
            short(&one["reason"], 80),
        ]);
    }
    table
}

/// Returns a text with its lines indented.
pub(crate) fn indented(text: &str) -> String {
    let text = lines(text);
    let indented: Vec<String> = text.lines().map(|line| format!("  {line}")).collect();
    indented.join("\n")
}
