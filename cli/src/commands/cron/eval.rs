//! `punctual cron eval --stdin`: one JSON question per line, one JSON answer.
//!
//! Answers come in order and are flushed one by one. A line that cannot be
//! answered is answered with an error and does not end the run; lines are
//! bounded, so that no input can fill the memory.

use std::io::{self, BufRead, Write};

use punctual::schedule::Cron;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::query::{Direction, Query, QueryError, format_instant};

/// The longest line that is read, in bytes.
const LINE_BYTES_MAX: usize = 65_536;

/// A question as it is written.
#[derive(Debug, Deserialize)]
struct Question {
    expr: String,
    tz: Option<String>,
    from: Option<String>,
    inclusive: Option<bool>,
    count: Option<u64>,
    direction: Option<Direction>,
    seed: Option<Value>,
}

/// An answer: either the times or the error.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    canonical: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Answer {
    /// For a question that was not asked by a line.
    pub(super) fn without_id(mut self) -> Answer {
        self.id = None;
        self
    }

    fn refused(id: Value, error: String) -> Answer {
        Answer { id: Some(id), next: None, canonical: None, error: Some(error) }
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = serde_json::to_string(self).map_err(|_| std::fmt::Error)?;
        out.write_str(&text)
    }
}

/// Answers line by line until the input ends.
pub(super) fn run(mut input: impl BufRead, out: &mut impl Write) -> io::Result<()> {
    let mut line = Vec::new();
    while let Some(whole) = read_line(&mut input, &mut line)? {
        let answer = match (whole, line.trim_ascii()) {
            (true, []) => continue,
            (true, line) => answer_line(line),
            (false, _) => Answer::refused(
                Value::Null,
                format!("the line is longer than {LINE_BYTES_MAX} bytes"),
            ),
        };
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

/// Reads up to the end of a line; true when all of it was kept, none at the end
/// of the input.
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

fn answer_line(line: &[u8]) -> Answer {
    let question: Value = match serde_json::from_slice(line) {
        Ok(question) => question,
        Err(error) => {
            return Answer::refused(Value::Null, format!("the line is not JSON: {error}"));
        }
    };
    let id = question.get("id").cloned().unwrap_or(Value::Null);
    let query = match Question::deserialize(question) {
        Ok(question) => question.query(),
        Err(error) => return Answer::refused(id, format!("the question cannot be read: {error}")),
    };
    match query {
        Ok(query) => answer(id, &query),
        Err(error) => Answer::refused(id, error.to_string()),
    }
}

/// The times that a question asks for, with the canonical text.
pub(super) fn answer(id: Value, query: &Query) -> Answer {
    let next = query.answers().map(|at| format_instant(at, query.zone())).collect();
    Answer {
        id: Some(id),
        next: Some(next),
        canonical: Some(query.cron().to_string()),
        error: None,
    }
}

impl Question {
    fn query(&self) -> Result<Query, QueryError> {
        let cron = match &self.seed {
            Some(Value::String(seed)) => Cron::parse_seeded(&self.expr, seed)?,
            Some(seed) if !seed.is_null() => Cron::parse_seeded(&self.expr, &seed.to_string())?,
            _ => Cron::parse(&self.expr)?,
        };
        let zone = self.tz.as_deref().unwrap_or("UTC");
        Query::new(cron, zone, self.from.as_deref())?
            .walking(self.direction.unwrap_or_default())
            .inclusive(self.inclusive.unwrap_or(false))
            .counted(self.count.unwrap_or(1))
    }
}
