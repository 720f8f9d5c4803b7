//! View: a header, queues, running messages and the next runs.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Row, Table};
use serde_json::Value;

use super::Snapshot;
use crate::commands::jobs::short_schedule;
use crate::commands::queues::{pending_counts, rate};
use crate::render::{duration_of, one_line, relative, short, word};

/// Draws a snapshot.
pub(super) fn draw(frame: &mut Frame<'_>, snapshot: &Snapshot) {
    let queues = u16::try_from(items(&snapshot.queues).len()).unwrap_or(u16::MAX).clamp(1, 12);
    let running = u16::try_from(items(&snapshot.running).len()).unwrap_or(u16::MAX).clamp(1, 15);
    let areas = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(queues + 3),
        Constraint::Length(running + 3),
        Constraint::Min(3),
    ])
    .split(frame.area());
    let [head_area, queues_area, running_area, next_area] = areas[..] else { return };
    frame.render_widget(head(snapshot), head_area);
    draw_queues(frame, queues_area, snapshot);
    draw_running(frame, running_area, snapshot);
    draw_next(frame, next_area, snapshot);
}

fn items(list: &Value) -> &[Value] {
    list["items"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn sum(list: &Value, key: &str) -> u64 {
    items(list).iter().filter_map(|one| one[key].as_u64()).sum()
}

/// Returns the header line.
fn head(snapshot: &Snapshot) -> Line<'_> {
    let dead = sum(&snapshot.dead, "count");
    let time = snapshot.now.strftime("%H:%M:%SZ");
    let is_exact = items(&snapshot.queues).iter().all(|queue| queue["is_exact"] != false);
    let counts = format!(
        "{time}  {}  ready {}{}  running {}  ",
        snapshot.target,
        if is_exact { "" } else { "<=" },
        sum(&snapshot.queues, "ready"),
        sum(&snapshot.queues, "running")
    );
    let red = if dead > 0 { Style::new().fg(Color::Red) } else { Style::new() };
    let end = match &snapshot.error {
        Some(error) => {
            Span::styled(format!("  {}", one_line(error, 80)), Style::new().fg(Color::Red))
        }
        None => Span::raw("  q quits"),
    };
    Line::from(vec![Span::raw(counts), Span::styled(format!("dead {dead}"), red), end])
}

fn table(frame: &mut Frame<'_>, area: Rect, head: &[&str], rows: Vec<Vec<String>>, widths: &[u16]) {
    let style = Style::new().add_modifier(Modifier::BOLD);
    let widths = widths.iter().map(|width| match width {
        0 => Constraint::Min(10),
        width => Constraint::Length(*width),
    });
    let head = Row::new(head.iter().map(|word| (*word).to_owned())).style(style);
    let table = Table::new(rows.into_iter().map(Row::new), widths).header(head).column_spacing(2);
    frame.render_widget(table, area);
}

fn draw_queues(frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot) {
    let row = |queue: &Value| {
        let paused = if queue["paused"].is_null() { "" } else { "paused" };
        let [ready, scheduled] = pending_counts(queue);
        vec![
            short(&queue["name"], 28),
            ready,
            scheduled,
            word(&queue["running"]),
            word(&queue["dead"]),
            duration_of(&queue["oldest_age_ms"]),
            rate(&queue["rate"]["in_per_s"]),
            rate(&queue["rate"]["out_per_s"]),
            paused.to_owned(),
        ]
    };
    let rows = items(&snapshot.queues).iter().take(12).map(row).collect();
    let head = ["queue", "ready", "scheduled", "running", "dead", "oldest", "in/s", "out/s", ""];
    table(frame, area, &head, rows, &[30, 7, 9, 7, 6, 8, 6, 6, 0]);
}

fn draw_running(frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot) {
    let row = |one: &Value| {
        let of = if one["job"].is_null() { &one["topic"] } else { &one["job"] };
        let percent = one["progress"]["percent"].as_u64().map(|percent| format!("{percent} % "));
        let progress = format!("{}{}", percent.unwrap_or_default(), word(&one["progress"]["note"]));
        vec![
            short(of, 28),
            word(&one["phase"]),
            word(&one["attempt"]),
            relative(&one["due_at"], snapshot.now),
            word(&one["id"]),
            progress,
        ]
    };
    let rows = items(&snapshot.running).iter().map(row).collect();
    let head = ["running", "state", "attempt", "due", "id", "progress"];
    table(frame, area, &head, rows, &[30, 8, 7, 12, 36, 0]);
}

fn draw_next(frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot) {
    let fires = |job: &&Value| !job["next_at"].is_null();
    let row = |job: &Value| {
        vec![
            short(&job["name"], 28),
            relative(&job["next_at"], snapshot.now),
            word(&job["word"]),
            short(&short_schedule(&job["in_words"]), 50),
        ]
    };
    let rows = items(&snapshot.next).iter().filter(fires).map(row).collect();
    table(frame, area, &["next", "when", "state", "schedule"], rows, &[30, 12, 12, 0]);
}
