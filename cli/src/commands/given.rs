//! Values that people give: instants, JSON, and texts from a file or standard input.

use std::fs::File;
use std::io::{self, Read};

use anyhow::{Context, Result, bail};
use punctual::clock::{Clock, SystemClock, add, subtract};
use punctual::jiff::Timestamp;
use punctual::schedule::parse_duration;
use serde_json::Value;

use super::carried::BODY_MAX;
use crate::failure::Failure;

/// An instant: RFC 3339, `now`, or a length from now such as `+2h` or `-1d`.
pub(crate) fn instant(text: &str) -> Result<Timestamp, String> {
    let now = || SystemClock.now();
    if text == "now" {
        return Ok(now());
    }
    if let Some(length) = text.strip_prefix('+') {
        return parse_duration(length).map(|length| add(now(), length)).map_err(|e| e.to_string());
    }
    if let Some(length) = text.strip_prefix('-') {
        let length = parse_duration(length).map_err(|error| error.to_string())?;
        return Ok(subtract(now(), length));
    }
    text.parse()
        .map_err(|_| format!("{text:?} is no instant; write 2026-03-02T07:00:00Z, now, +2h or -1d"))
}

/// A text, `@path` for what is in a file, or `-` for standard input.
pub(crate) fn bytes(text: &str, what: &str) -> Result<Vec<u8>> {
    match text {
        "-" => bounded(io::stdin().lock())
            .with_context(|| format!("cannot read {what} from standard input")),
        text => match text.strip_prefix('@') {
            Some(path) => File::open(path)
                .map_err(Into::into)
                .and_then(bounded)
                .with_context(|| format!("cannot read {what} from {path}")),
            None => Ok(text.as_bytes().to_vec()),
        },
    }
}

/// The same as JSON.
pub(crate) fn json_text(text: &str, what: &str) -> Result<Value> {
    let bytes = bytes(text, what)?;
    serde_json::from_slice(&bytes).map_err(|error| {
        Failure::wrong(format!("{what} is not JSON: {error}"))
            .hint("quote texts twice, as in '\"text\"'")
            .into()
    })
}

/// Everything that comes, unless that is too much.
pub(crate) fn bounded(from: impl Read) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(BODY_MAX)?.saturating_add(1);
    from.take(limit).read_to_end(&mut bytes)?;
    if bytes.len() > BODY_MAX {
        bail!("it has more than {BODY_MAX} bytes; store it elsewhere and send a reference");
    }
    Ok(bytes)
}
