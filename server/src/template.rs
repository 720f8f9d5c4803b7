//! Templates: strings with `{{ name }}` placeholders. A small language on purpose: names, two filters, no logic.
//! Sizes are bounded, and an unknown name is refused when the template is checked.

use jiff::Timestamp;
use jiff::fmt::strtime;
use punctual::schedule::{Schedule, TextDefaults, Zone, near_words};
use punctual::{Context, Error, Result};
use serde_json::{Value, json};

/// Largest size of a template in bytes.
const TEXT_BYTES_MAX: usize = 64 * 1024;
/// Largest size of a rendered template in bytes.
const RENDERED_BYTES_MAX: usize = 1024 * 1024;
/// Largest number of placeholders in a template.
const PIECES_MAX: usize = 500;
/// Largest nesting depth of a JSON body.
const DEPTH_MAX: usize = 64;

/// Known names; paths below `payload` are free.
const NAMES: [&str; 8] =
    ["nominal", "window.start", "window.end", "attempt", "key", "payload", "job", "message"];

/// A parsed template.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Text(String),
    Name { path: Vec<String>, filter: Filter },
}

#[derive(Clone, Debug, PartialEq)]
enum Filter {
    None,
    Json,
    /// In the given zone, or in that of the job.
    Date {
        format: String,
        zone: Option<Zone>,
    },
}

/// Escaping of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escape {
    /// No escaping.
    None,
    /// As the inside of a JSON string.
    Json,
    /// As a URL component.
    Url,
}

impl Template {
    /// Parses a template; fails on a syntax error and unknown names.
    pub fn parse(text: &str) -> Result<Self> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(Error::invalid(format!(
                "the template has {} bytes; at most {TEXT_BYTES_MAX} are allowed",
                text.len()
            )));
        }
        let (mut pieces, mut rest) = (Vec::new(), text);
        while let Some((before, after)) = rest.split_once("{{") {
            let Some((inside, after)) = split_end(after) else {
                return Err(Error::invalid(
                    "a {{ has no closing }}; close it, or write {{ \"{{\" }} for a literal {{",
                ));
            };
            if pieces.len() >= PIECES_MAX {
                return Err(Error::invalid(format!(
                    "the template has more than {PIECES_MAX} placeholders; use fewer"
                )));
            }
            if !before.is_empty() {
                pieces.push(Piece::Text(before.to_owned()));
            }
            pieces.push(piece(inside.trim())?);
            rest = after;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Ok(Self { pieces })
    }

    /// Renders the template.
    pub fn render(&self, facts: &Facts, escape: Escape) -> Result<String> {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(fixed) => text.push_str(fixed),
                Piece::Name { path, filter } => {
                    let value = facts.filtered(path, filter)?;
                    match (&value, filter) {
                        (value, Filter::Json) => text.push_str(&value.to_string()),
                        (value, _) => escaped(&plain(value), escape, &mut text),
                    }
                }
            }
            if text.len() > RENDERED_BYTES_MAX {
                return Err(Error::invalid(format!(
                    "the rendered template has more than {RENDERED_BYTES_MAX} bytes; make it smaller"
                )));
            }
        }
        Ok(text)
    }

    /// Returns the value itself if the whole template is one placeholder.
    fn value(&self, facts: &Facts) -> Option<Result<Value>> {
        match self.pieces.as_slice() {
            [Piece::Name { path, filter }] => Some(facts.filtered(path, filter)),
            _ => None,
        }
    }
}

/// Splits at the first `}}` outside of quotes.
fn split_end(text: &str) -> Option<(&str, &str)> {
    let mut quoted = false;
    for (index, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '}' if !quoted && text[index..].starts_with("}}") => {
                return Some((&text[..index], &text[index + 2..]));
            }
            _ => {}
        }
    }
    None
}

fn piece(inside: &str) -> Result<Piece> {
    if let Some(fixed) = inside.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        return Ok(Piece::Text(fixed.to_owned()));
    }
    let (name, filter) = match inside.split_once('|') {
        Some((name, filter)) => (name.trim(), filter_of(filter.trim())?),
        None => (inside, Filter::None),
    };
    let known = NAMES.contains(&name) || name.starts_with("payload.");
    let path: Vec<String> = name.split('.').map(|part| part.trim().to_owned()).collect();
    if !known || path.iter().any(String::is_empty) {
        let near = near_words(name, NAMES);
        let hint = match near.as_slice() {
            [] => format!("known names are {}, and payload.some.path", NAMES.join(", ")),
            near => format!("did you mean {}?", near.join(" or ")),
        };
        return Err(Error::invalid(format!("unknown name {name:?} in a template; {hint}")));
    }
    let is_time = matches!(name, "nominal" | "window.start" | "window.end");
    if matches!(filter, Filter::Date { .. }) && !is_time && !name.starts_with("payload.") {
        return Err(Error::invalid(format!("{name} is not a time; the filter date needs one")));
    }
    Ok(Piece::Name { path, filter })
}

fn filter_of(text: &str) -> Result<Filter> {
    if text == "json" {
        return Ok(Filter::Json);
    }
    let arguments = text
        .strip_prefix("date")
        .map(str::trim_start)
        .and_then(|rest| rest.strip_prefix(':')?.trim().strip_prefix('"')?.strip_suffix('"'));
    let Some(arguments) = arguments else {
        return Err(Error::invalid(format!(
            "unknown filter {text:?}; known filters are json, date:\"%Y-%m-%d\" and date:\"%H:%M\",\"UTC\""
        )));
    };
    let (format, zone) = match arguments.split_once('"') {
        Some((format, rest)) => (format, Some(zone_of(rest)?)),
        None => (arguments, None),
    };
    dated(format, Timestamp::UNIX_EPOCH, &Zone::utc())?;
    Ok(Filter::Date { format: format.to_owned(), zone })
}

/// Parses the zone after a date format; the outer quotes are already removed.
fn zone_of(text: &str) -> Result<Zone> {
    let name =
        text.trim_start().strip_prefix(',').and_then(|rest| rest.trim_start().strip_prefix('"'));
    let name = name.ok_or_else(|| {
        Error::invalid("after a date format only a zone is allowed, as in date:\"%H:%M\",\"UTC\"")
    })?;
    Zone::named(name).map_err(|error| Error::invalid(error.to_string()))
}

fn dated(format: &str, at: Timestamp, zone: &Zone) -> Result<String> {
    strtime::format(format, &at.to_zoned(zone.time_zone().clone()))
        .map_err(|error| Error::invalid(format!("the date format {format:?} is invalid: {error}")))
}

/// Values available to a template.
#[derive(Clone, Debug)]
pub struct Facts {
    root: Value,
    /// The time zone of the job's schedule.
    zone: Zone,
}

impl Facts {
    /// Returns the values of an attempt. The window of a run is the time from the previous occurrence to its own.
    pub fn of(context: &Context, payload: Option<&Value>) -> Self {
        let nominal = context.nominal().unwrap_or_else(|| context.started_at());
        let schedule = context.occurrence().and_then(|occurrence| {
            let seed = Some(occurrence.job.to_string());
            let defaults = TextDefaults { seed, ..TextDefaults::default() };
            Schedule::parse(occurrence.schedule.as_deref()?, &defaults).ok()
        });
        let start = schedule.as_ref().and_then(|schedule| schedule.prev(nominal));
        let zone = schedule.as_ref().map_or_else(Zone::utc, Schedule::zone);
        let root = json!({
            "nominal": nominal,
            "window": {"start": start.unwrap_or(nominal), "end": nominal},
            "attempt": context.attempt(),
            "key": context.key().map(ToString::to_string),
            "job": context.job().map(ToString::to_string),
            "message": context.message_id().to_string(),
            "payload": payload,
        });
        Self { root, zone }
    }

    #[cfg(test)]
    fn from_json(root: Value, zone: &str) -> Self {
        Self { root, zone: Zone::named(zone).unwrap() }
    }

    fn get(&self, path: &[String]) -> Value {
        let found = path.iter().try_fold(&self.root, |value, part| match value {
            Value::Object(members) => members.get(part),
            Value::Array(items) => items.get(part.parse::<usize>().ok()?),
            _ => None,
        });
        found.cloned().unwrap_or_default()
    }

    fn filtered(&self, path: &[String], filter: &Filter) -> Result<Value> {
        let value = self.get(path);
        let Filter::Date { format, zone } = filter else { return Ok(value) };
        let at = value.as_str().and_then(|text| text.parse::<Timestamp>().ok());
        let at = at.ok_or_else(|| {
            // Without the value: an error is shown also where the payload is redacted.
            Error::invalid(format!(
                "{} is not a time; the filter date needs one such as 2026-03-01T12:00:00Z",
                path.join(".")
            ))
        })?;
        dated(format, at, zone.as_ref().unwrap_or(&self.zone)).map(Value::from)
    }
}

/// Returns a value as text.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn escaped(value: &str, escape: Escape, into: &mut String) {
    use std::fmt::Write as _;
    match escape {
        Escape::None => into.push_str(value),
        Escape::Json => {
            let quoted = Value::from(value).to_string();
            into.push_str(&quoted[1..quoted.len() - 1]);
        }
        Escape::Url => {
            for byte in value.bytes() {
                match byte {
                    b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                        into.push(char::from(byte));
                    }
                    _ => {
                        let _ = write!(into, "%{byte:02X}");
                    }
                }
            }
        }
    }
}

/// Checks every string of a JSON body.
pub(crate) fn check_json(body: &Value) -> Result<()> {
    walk(body, 0, &mut |text| Template::parse(text).map(|_| Value::Null)).map(|_| ())
}

/// Renders the strings of a JSON body. A string that is one placeholder becomes the value itself, so that a
/// number stays a number.
pub(crate) fn render_json(body: &Value, facts: &Facts) -> Result<Value> {
    walk(body, 0, &mut |text| {
        let template = Template::parse(text)?;
        match template.value(facts) {
            Some(value) => value,
            None => template.render(facts, Escape::None).map(Value::from),
        }
    })
}

fn walk(
    value: &Value,
    depth: usize,
    change: &mut dyn FnMut(&str) -> Result<Value>,
) -> Result<Value> {
    if depth > DEPTH_MAX {
        return Err(Error::invalid(format!("the body is nested deeper than {DEPTH_MAX} levels")));
    }
    match value {
        Value::String(text) => change(text),
        Value::Array(items) => items.iter().map(|item| walk(item, depth + 1, change)).collect(),
        Value::Object(members) => {
            let read = members
                .iter()
                .map(|(name, member)| Ok((name.clone(), walk(member, depth + 1, change)?)));
            read.collect::<Result<serde_json::Map<_, _>>>().map(Value::Object)
        }
        other => Ok(other.clone()),
    }
}

#[cfg(test)]
mod tests;
