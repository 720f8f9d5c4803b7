//! Rendering of responses as text: tables without borders, lists of facts, relative times and durations.

use comfy_table::presets::NOTHING;
use comfy_table::{Attribute, Cell, Color, ContentArrangement};
use punctual::jiff::Timestamp;
use serde_json::Value;

/// Columns whose values are coloured.
const COLOURED: [&str; 5] = ["state", "status", "ending", "decision", "last"];

/// A table: a header and rows.
pub(crate) struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(head: &[&'static str]) -> Self {
        Self { head: head.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, row: impl IntoIterator<Item = String>) {
        self.rows.push(row.into_iter().collect());
    }

    /// Returns the table as text, without blanks at the ends of lines.
    pub(crate) fn text(&self, colours: bool) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        if colours {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        let bold = |word: &&str| Cell::new(word).add_attribute(Attribute::Bold);
        table.set_header(self.head.iter().map(bold));
        for row in &self.rows {
            let cells = row.iter().zip(&self.head).map(|(text, head)| {
                let cell = Cell::new(text);
                match colour(text).filter(|_| COLOURED.contains(head)) {
                    Some(colour) => cell.fg(colour),
                    None => cell,
                }
            });
            table.add_row(cells);
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
        lines.join("\n")
    }
}

/// Returns the colour of a state.
fn colour(text: &str) -> Option<Color> {
    match text.split([' ', ',']).next().unwrap_or_default() {
        "succeeded" | "done" | "ok" | "active" | "ran" | "fine" | "yes" => Some(Color::Green),
        "dead" | "failed" | "lost" | "broken" | "missed" | "overdue" | "bad" => Some(Color::Red),
        "paused" | "retrying" | "stale" | "late" | "disabled" | "skipped" | "quiet" | "warning" => {
            Some(Color::Yellow)
        }
        "running" | "ready" => Some(Color::Blue),
        "retired" | "cancelled" | "discarded" => Some(Color::DarkGrey),
        _ => None,
    }
}

/// Returns names and values as lines, without those that have no value.
pub(crate) fn facts(facts: &[(&str, String)]) -> String {
    let shown = || facts.iter().filter(|(_, value)| !matches!(value.as_str(), "" | "-"));
    let width = shown().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
    let lines: Vec<String> =
        shown().map(|(name, value)| format!("{name:width$}  {value}")).collect();
    lines.join("\n")
}

/// Returns a text of at most `len_max` characters on one line; control characters become blanks.
pub(crate) fn one_line(text: &str, len_max: usize) -> String {
    let mut line: String =
        text.chars().take(len_max).map(|one| if one.is_control() { ' ' } else { one }).collect();
    if text.chars().nth(len_max).is_some() {
        line.push_str("...");
    }
    line
}

/// Returns a text of several lines without control characters.
pub(crate) fn lines(text: &str) -> String {
    text.chars().filter(|one| !one.is_control() || matches!(one, '\n' | '\t')).collect()
}

/// Returns a JSON value as a short text; `-` for none.
pub(crate) fn word(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) if text.is_empty() => "-".to_owned(),
        Value::String(text) => one_line(text, 200),
        Value::Bool(is) => if *is { "yes" } else { "no" }.to_owned(),
        Value::Array(items) if items.is_empty() => "-".to_owned(),
        Value::Array(items) => items.iter().map(word).collect::<Vec<_>>().join(", "),
        other => one_line(&other.to_string(), 200),
    }
}

/// Returns a JSON value as a text of at most `len_max` characters; `-` for none.
pub(crate) fn short(value: &Value, len_max: usize) -> String {
    match value.as_str() {
        Some(text) if !text.is_empty() => one_line(text, len_max),
        _ => word(value),
    }
}

fn instant(value: &Value) -> Option<Timestamp> {
    value.as_str().and_then(|text| text.parse().ok())
}

/// Returns an instant to the second: `2026-03-02 07:00:00Z`.
pub(crate) fn stamp(value: &Value) -> String {
    instant(value).map_or_else(|| word(value), |at| at.strftime("%Y-%m-%d %H:%M:%SZ").to_string())
}

/// Returns an instant relative to now: `in 5m`, `3h 12m ago`.
pub(crate) fn relative(value: &Value, now: Timestamp) -> String {
    let Some(at) = instant(value) else { return word(value) };
    let ms = at.as_millisecond() - now.as_millisecond();
    match (ms.unsigned_abs(), ms > 0) {
        (0..1_000, _) => "now".to_owned(),
        (ms, true) => format!("in {}", duration(ms / 1_000 * 1_000)),
        (ms, false) => format!("{} ago", duration(ms / 1_000 * 1_000)),
    }
}

/// Returns an instant to the second with its relative time.
pub(crate) fn moment(value: &Value, now: Timestamp) -> String {
    match value {
        Value::Null => "-".to_owned(),
        value => format!("{} ({})", stamp(value), relative(value, now)),
    }
}

/// Returns a duration in its two largest units: `350ms`, `4.2s`, `3m 5s`, `2h 10m`, `3d 4h`.
pub(crate) fn duration(ms: u64) -> String {
    let two = |large: u64, unit: char, small: u64, part: char| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit} {small}{part}"),
    };
    let seconds = ms / 1_000;
    match seconds {
        0 => format!("{ms}ms"),
        1..10 if !ms.is_multiple_of(1_000) => format!("{seconds}.{}s", ms % 1_000 / 100),
        1..60 => format!("{seconds}s"),
        60..3_600 => two(seconds / 60, 'm', seconds % 60, 's'),
        3_600..86_400 => two(seconds / 3_600, 'h', seconds % 3_600 / 60, 'm'),
        _ => two(seconds / 86_400, 'd', seconds % 86_400 / 3_600, 'h'),
    }
}

/// Returns a JSON number of milliseconds as a duration.
pub(crate) fn duration_of(value: &Value) -> String {
    value.as_u64().map_or_else(|| word(value), duration)
}

/// Returns a count with its noun: `1 message`, `2 messages`.
pub(crate) fn counted(count: u64, thing: &str) -> String {
    match (count, thing.strip_suffix('y')) {
        (1, _) => format!("1 {thing}"),
        (count, Some(stem)) => format!("{count} {stem}ies"),
        (count, None) => format!("{count} {thing}s"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn durations_have_two_units() {
        let table = [
            (0, "0ms"),
            (350, "350ms"),
            (4_250, "4.2s"),
            (4_000, "4s"),
            (59_999, "59s"),
            (60_000, "1m"),
            (185_000, "3m 5s"),
            (7_800_000, "2h 10m"),
            (86_400_000, "1d"),
            (273_600_000, "3d 4h"),
        ];
        for (ms, text) in table {
            assert_eq!(duration(ms), text, "{ms}");
        }
    }

    #[test]
    fn instants_are_shown_relative_to_now() {
        let now = "2026-03-02T07:00:00Z".parse().unwrap();
        let table = [
            ("2026-03-02T07:00:00.9Z", "now"),
            ("2026-03-02T07:05:00Z", "in 5m"),
            ("2026-03-02T03:48:00Z", "3h 12m ago"),
        ];
        for (at, text) in table {
            assert_eq!(relative(&json!(at), now), text);
        }
        assert_eq!(relative(&Value::Null, now), "-");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(word(&json!("a\u{1b}[31mb\nc")), "a [31mb c");
        assert_eq!(lines("a\u{1b}[31m\nb\u{9b}"), "a[31m\nb");
        assert_eq!(one_line("abcdef", 3), "abc...");
    }

    #[test]
    fn a_table_has_no_borders_and_no_blanks_at_the_end() {
        let mut table = Table::new(&["name", "state", "note"]);
        table.row(["a".into(), "dead".into(), String::new()]);
        table.row(["longer".into(), "ready".into(), "x".into()]);
        assert_eq!(table.text(false), "name    state  note\na       dead\nlonger  ready  x");
        assert!(table.text(true).contains("\u{1b}["));
    }

    #[test]
    fn counts_have_a_noun() {
        assert_eq!(counted(1, "message"), "1 message");
        assert_eq!(counted(0, "message"), "0 messages");
        assert_eq!(counted(2, "entry"), "2 entries");
    }
}
