//! Input values: instants, JSON, and texts from a file or standard input.

use std::fs::File;
use std::io::{self, Read};

use anyhow::{Context, Result, bail};
use punctual::clock::{Clock, SystemClock, add, subtract};
use punctual::jiff::Timestamp;
use punctual::schedule::parse_duration;
use serde_json::Value;

use super::transport::BODY_MAX;
use crate::error::CommandError;

/// Parses an instant: RFC 3339, `now`, or a duration from now such as `+2h` or `-1d`.
pub(crate) fn instant(text: &str) -> Result<Timestamp, String> {
    let now = || SystemClock.now();
    if text == "now" {
        return Ok(now());
    }
    if let Some(text) = text.strip_prefix('+') {
        return parse_duration(text).map(|after| add(now(), after)).map_err(|e| e.to_string());
    }
    if let Some(text) = text.strip_prefix('-') {
        let before = parse_duration(text).map_err(|error| error.to_string())?;
        return Ok(subtract(now(), before));
    }
    text.parse().map_err(|_| {
        format!("{text:?} is not an instant; write 2026-03-02T07:00:00Z, now, +2h or -1d")
    })
}

/// Returns the bytes of a text, of a file for `@path`, or of standard input for `-`.
pub(crate) fn bytes(text: &str, name: &str) -> Result<Vec<u8>> {
    match text {
        "-" => bounded(io::stdin().lock())
            .with_context(|| format!("cannot read {name} from standard input")),
        text => match text.strip_prefix('@') {
            Some(path) => File::open(path)
                .map_err(Into::into)
                .and_then(bounded)
                .with_context(|| format!("cannot read {name} from {path}")),
            None => Ok(text.as_bytes().to_vec()),
        },
    }
}

/// Parses a text, a file or standard input as JSON.
pub(crate) fn json_text(text: &str, name: &str) -> Result<Value> {
    let bytes = bytes(text, name)?;
    serde_json::from_slice(&bytes).map_err(|error| {
        CommandError::invalid_input(format!("{name} is not JSON: {error}"))
            .hint("write a JSON string with both quotes, as in '\"text\"'")
            .into()
    })
}

/// Reads everything; fails above [`BODY_MAX`].
pub(crate) fn bounded(from: impl Read) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(BODY_MAX)?.saturating_add(1);
    from.take(limit).read_to_end(&mut bytes)?;
    if bytes.len() > BODY_MAX {
        bail!("it has more than {BODY_MAX} bytes; store it elsewhere and send a reference");
    }
    Ok(bytes)
}
