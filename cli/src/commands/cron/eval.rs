//! `punctual cron eval --stdin`: evaluates one JSON query per line.
//!
//! The output lines are in the order of the input and flushed one by one. An
//! invalid line yields an error object and does not end the run. Lines have a
//! maximum length, so that no input can exhaust the memory.

use std::io::{self, BufRead, Write};

use punctual::schedule::Cron;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::query::{Direction, Query, QueryError, format_instant};

/// Largest length of a line in bytes.
const LINE_BYTES_MAX: usize = 65_536;

/// A query as a line of the input.
#[derive(Debug, Deserialize)]
struct InputLine {
    expr: String,
    tz: Option<String>,
    from: Option<String>,
    inclusive: Option<bool>,
    count: Option<u64>,
    direction: Option<Direction>,
    seed: Option<Value>,
}

/// A line of the output: either the occurrences or an error.
#[derive(Debug, Serialize)]
pub(super) struct OutputLine {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    canonical: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl OutputLine {
    /// Removes the id, for a query that is not a line.
    pub(super) fn without_id(mut self) -> OutputLine {
        self.id = None;
        self
    }

    fn failed(id: Value, error: String) -> OutputLine {
        OutputLine { id: Some(id), next: None, canonical: None, error: Some(error) }
    }
}

impl std::fmt::Display for OutputLine {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = serde_json::to_string(self).map_err(|_| std::fmt::Error)?;
        out.write_str(&text)
    }
}

/// Evaluates the input line by line until it ends.
pub(super) fn run(mut input: impl BufRead, out: &mut impl Write) -> io::Result<()> {
    let mut line = Vec::new();
    while let Some(whole) = read_line(&mut input, &mut line)? {
        let output = match (whole, line.trim_ascii()) {
            (true, []) => continue,
            (true, line) => evaluate_line(line),
            (false, _) => OutputLine::failed(
                Value::Null,
                format!("the line is longer than {LINE_BYTES_MAX} bytes"),
            ),
        };
        writeln!(out, "{output}")?;
        out.flush()?;
    }
    Ok(())
}

/// Reads up to the end of a line. Returns whether the line fits, or none at the
/// end of the input.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Option<bool>> {
    line.clear();
    let (mut started, mut whole) = (false, true);
    loop {
        let chunk = input.fill_buf()?;
        if chunk.is_empty() {
            return Ok(started.then_some(whole));
        }
        started = true;
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let part = &chunk[..end.unwrap_or(chunk.len())];
        whole &= line.len() + part.len() <= LINE_BYTES_MAX;
        if whole {
            line.extend_from_slice(part);
        }
        let used = end.map_or(chunk.len(), |end| end + 1);
        input.consume(used);
        if end.is_some() {
            return Ok(Some(whole));
        }
    }
}

fn evaluate_line(line: &[u8]) -> OutputLine {
    let input: Value = match serde_json::from_slice(line) {
        Ok(input) => input,
        Err(error) => {
            return OutputLine::failed(Value::Null, format!("the line is not JSON: {error}"));
        }
    };
    let id = input.get("id").cloned().unwrap_or(Value::Null);
    let query = match InputLine::deserialize(input) {
        Ok(input) => input.query(),
        Err(error) => return OutputLine::failed(id, format!("the query cannot be read: {error}")),
    };
    match query {
        Ok(query) => evaluate(id, &query),
        Err(error) => OutputLine::failed(id, error.to_string()),
    }
}

/// Returns the occurrences of a query, with the canonical expression.
pub(super) fn evaluate(id: Value, query: &Query) -> OutputLine {
    let next = query.occurrences().map(|at| format_instant(at, query.zone())).collect();
    OutputLine {
        id: Some(id),
        next: Some(next),
        canonical: Some(query.cron().to_string()),
        error: None,
    }
}

impl InputLine {
    fn query(&self) -> Result<Query, QueryError> {
        let cron = match &self.seed {
            Some(Value::String(seed)) => Cron::parse_seeded(&self.expr, seed)?,
            Some(seed) if !seed.is_null() => Cron::parse_seeded(&self.expr, &seed.to_string())?,
            _ => Cron::parse(&self.expr)?,
        };
        let zone = self.tz.as_deref().unwrap_or("UTC");
        Query::new(cron, zone, self.from.as_deref())?
            .direction(self.direction.unwrap_or_default())
            .inclusive(self.inclusive.unwrap_or(false))
            .count(self.count.unwrap_or(1))
    }
}
