//! Screen output of the demonstration: one line per event, coloured on a terminal.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;

use anyhow::Result;
use punctual::clock::between;
use punctual::event::Event;
use punctual::jiff::{Timestamp, Unit};
use punctual::model::{Execution, MessageRecord};

use super::is_printed;

const GREEN: &str = "32";
const YELLOW: &str = "33";
const RED: &str = "31";
const BLUE: &str = "34";
const DIM: &str = "2";

/// Printer of events and of the summary.
pub(super) struct Screen {
    colours: bool,
}

impl Screen {
    pub(super) fn new() -> Self {
        Self { colours: io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() }
    }

    pub(super) fn opening(&self, seconds: u64) -> Result<()> {
        line("All work in Punctual is messages that become due. This demonstration has:")?;
        line("  welcome             published now")?;
        line("  reminder            published now, due in 4 s")?;
        line("  flaky               fails twice, retried after 2 s and 3 s, then works")?;
        line("  hopeless            fails three times and becomes a dead letter")?;
        line("  every-five-seconds  a cron job, */5 * * * * *")?;
        line(&self.paint(DIM, &format!("This takes {seconds} seconds; Ctrl-C stops earlier.\n")))
    }

    pub(super) fn missed(&self, count: u64) -> Result<()> {
        line(&self.paint(
            DIM,
            &format!("              {count} events are not shown, because they arrived too fast"),
        ))
    }

    pub(super) fn event(&self, now: Timestamp, event: &Arc<Event>) -> Result<()> {
        if !is_printed(event) {
            return Ok(());
        }
        let (colour, label, name, detail) = describe(event, now);
        let time = now.round(Unit::Millisecond)?.strftime("%H:%M:%S%.3f").to_string();
        let text = format!(
            "{}  {}  {name:<20} {detail}",
            self.paint(DIM, &time),
            self.paint(colour, &format!("{label:<10}"))
        );
        line(text.trim_end())
    }

    pub(super) fn summary(
        &self,
        history: &[Execution],
        dead: &[MessageRecord],
        events: &[(&'static str, u64)],
        abandoned: usize,
    ) -> Result<()> {
        line("\nHistory, newest first")?;
        for execution in history.iter().take(12) {
            let note = execution.note.as_deref().unwrap_or_default();
            let text = format!(
                "  {:<20} attempt {}  {:<10} {} after it was due  {note}",
                execution.topic.as_str(),
                execution.attempt,
                execution.ending.as_str(),
                milliseconds(between(execution.due_at, execution.started_at)),
            );
            line(text.trim_end())?;
        }
        line("\nDead letters")?;
        for record in dead {
            let error = record.error.as_deref().unwrap_or_default();
            let reason = record.dead.map_or("", punctual::model::DeadReason::as_str);
            line(&format!(
                "  {:<20} {reason} after {} attempts: {error}",
                record.message.topic.as_str(),
                record.attempt
            ))?;
        }
        let counts: Vec<String> =
            events.iter().map(|(name, count)| format!("{name} {count}")).collect();
        line(&self.paint(DIM, &format!("\nEvents: {}", counts.join(", "))))?;
        let end = if abandoned == 0 {
            "Stopped; all work is finished."
        } else {
            "Stopped with unfinished work."
        };
        line(end)
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colours { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

fn line(text: &str) -> Result<()> {
    Ok(writeln!(io::stdout(), "{text}")?)
}

/// Returns the colour, the label, the name and the detail of an event's line.
fn describe(event: &Event, now: Timestamp) -> (&'static str, &'static str, String, String) {
    match event {
        Event::MessageEnqueued { topic, due_at, .. } => {
            let wait = between(now, *due_at);
            let due = if wait.as_millis() < 10 {
                "due now".to_owned()
            } else {
                format!("due in {:.1} s", wait.as_secs_f64())
            };
            (BLUE, "published", topic.to_string(), due)
        }
        Event::JobDeclared { job, .. } => (BLUE, "declared", job.to_string(), String::new()),
        Event::JobFired { job, nominal, .. } => {
            (BLUE, "fired", job.to_string(), format!("for {}", nominal.strftime("%H:%M:%S")))
        }
        Event::AttemptSucceeded { topic, took, .. } => {
            (GREEN, "done", topic.to_string(), format!("took {}", milliseconds(*took)))
        }
        Event::AttemptFailed { topic, attempt, error, again_at, .. } => {
            let again = again_at.map_or_else(
                || "no attempt left".to_owned(),
                |at| format!("retried in {:.1} s", between(now, at).as_secs_f64()),
            );
            let error = error.as_deref().unwrap_or_default();
            (YELLOW, "failed", topic.to_string(), format!("attempt {attempt}: {error}; {again}"))
        }
        Event::MessageDead { topic, reason, .. } => {
            (RED, "dead", topic.to_string(), format!("{}, kept as a dead letter", reason.as_str()))
        }
        Event::ProcessStopping { running, .. } => {
            (DIM, "stopping", String::new(), format!("{running} running"))
        }
        Event::ProcessStopped { .. } => (DIM, "stopped", String::new(), String::new()),
        other => (DIM, "event", other.name().to_owned(), String::new()),
    }
}

fn milliseconds(duration: std::time::Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1e3)
}
