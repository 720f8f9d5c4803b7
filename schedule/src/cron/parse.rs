//! Parser: from text to [`Fields`], in one pass over the bytes, bounded by the length
//! limit, naming the first field at fault, the position and what is valid.
//!
//! The fields are counted first, so that the error for seven fields is about
//! years and not about the hour. Stars, `H`, `L`, `W` and `#` stand alone.

use super::error::{CronError, CronErrorKind as Kind};
use super::field::{CronField as Field, Days, Fields, Weekdays};
use super::reader::Reader;

/// The longest accepted text, in bytes. Every second, minute, hour, day, month
/// and weekday spelled out takes about half of it.
pub(super) const LEN_MAX: usize = 1_024;

const MACROS: [(&str, &str); 9] = [
    ("every_second", "* * * * * *"),
    ("every_minute", "* * * * *"),
    ("hourly", "0 * * * *"),
    ("daily", "0 0 * * *"),
    ("midnight", "0 0 * * *"),
    ("weekly", "0 0 * * 0"),
    ("monthly", "0 0 1 * *"),
    ("yearly", "0 0 1 1 *"),
    ("annually", "0 0 1 1 *"),
];

/// A parsed text.
pub(super) struct Parsed {
    pub(super) fields: Fields,
    /// The text with every `H` replaced by its value; `None` without an `H`.
    pub(super) resolved: Option<String>,
}

/// Parses a text; `H` draws its values from `seed`.
pub(super) fn parse(text: &str, seed: Option<&str>) -> Result<Parsed, CronError> {
    if text.len() > LEN_MAX {
        return Err(CronError::new(
            Kind::TooLong,
            format!("the expression has {} bytes, at most {LEN_MAX} are read", text.len()),
        ));
    }
    let words = words(text);
    match words.first() {
        Some(&(start, end)) if text[start..end].starts_with('@') => {
            parse(expand_macro(text, &words)?, None)
        }
        _ => parse_fields(text, &words, seed),
    }
}

/// Returns start and end of every word between blanks (spaces and tabs).
fn words(text: &str) -> Vec<(usize, usize)> {
    let mut words = Vec::with_capacity(6);
    let mut start = None;
    for (i, byte) in text.bytes().enumerate() {
        match (matches!(byte, b' ' | b'\t'), start) {
            (false, None) => start = Some(i),
            (true, Some(from)) => {
                words.push((from, i));
                start = None;
            }
            _ => {}
        }
    }
    words.extend(start.map(|from| (from, text.len())));
    words
}

fn expand_macro(text: &str, words: &[(usize, usize)]) -> Result<&'static str, CronError> {
    let (start, end) = words[0];
    let name = &text[start + 1..end];
    let known = MACROS.iter().find(|(n, _)| name.eq_ignore_ascii_case(n));
    match (known, words.get(1)) {
        (Some((_, fields)), None) => Ok(fields),
        (Some(_), Some(&(next, _))) => Err(CronError::new(
            Kind::Macro,
            format!("nothing may follow @{name} (position {})", next + 1),
        )
        .at(next)),
        (None, _) => Err(CronError::new(Kind::Macro, unknown_macro(name)).at(start)),
    }
}

fn unknown_macro(name: &str) -> String {
    let known: Vec<String> = MACROS.iter().map(|(n, _)| format!("@{n}")).collect();
    let hint = match name.to_ascii_lowercase().as_str() {
        "every" => "; an interval such as `every 5m` is a schedule of its own, not a cron text",
        _ => "",
    };
    format!("@{name} is not a macro, use one of {}{hint}", known.join(", "))
}

fn parse_fields(
    text: &str,
    words: &[(usize, usize)],
    seed: Option<&str>,
) -> Result<Parsed, CronError> {
    let skipped = match words.len() {
        5 => 1,
        6 => 0,
        _ => return Err(wrong_count(text, words)),
    };
    let mut reader = Reader::new(text, seed);
    let mut fields = Fields {
        seconds: 1,
        minutes: 0,
        hours: 0,
        days: Days::Set(0),
        months: 0,
        weekdays: Weekdays::Set(0),
        interval_like: false,
    };
    for (field, word) in Field::ALL.into_iter().skip(skipped).zip(words) {
        reader.enter(field, *word);
        match field {
            Field::Second => fields.seconds = reader.values()?,
            Field::Minute => fields.minutes = reader.values()?,
            Field::Hour => fields.hours = low_bits(reader.values()?),
            Field::Day => fields.days = reader.days()?,
            Field::Month => fields.months = low_bits(reader.values()?),
            Field::Weekday => fields.weekdays = reader.weekdays()?,
        }
        reader.leave()?;
    }
    fields.interval_like = reader.interval_like;
    Ok(Parsed { fields, resolved: reader.resolved() })
}

fn wrong_count(text: &str, words: &[(usize, usize)]) -> CronError {
    if words.is_empty() {
        return CronError::new(
            Kind::Empty,
            "the expression is empty, use five fields such as `0 9 * * MON-FRI`".to_owned(),
        );
    }
    let odd_blank = text.char_indices().find(|(_, c)| *c != ' ' && *c != '\t' && c.is_whitespace());
    let found = words.len();
    let (position, hint) = match (odd_blank, found) {
        (Some((at, _)), _) => (at, "; fields are separated by spaces and tabs only".to_owned()),
        (None, 1..5) => {
            let missing = Field::ALL[found + 1];
            (text.len(), format!("; the {missing} is missing"))
        }
        (None, _) => (
            words[6].0,
            "; years are not a field, bound the schedule with its start and end".to_owned(),
        ),
    };
    CronError::new(
        Kind::FieldCount,
        format!(
            "the expression has {found} field{}, but needs 5 (minute, hour, day of month, month, \
             day of week) or 6 with seconds in front{hint}",
            if found == 1 { "" } else { "s" }
        ),
    )
    .at(characters(text, position))
}

/// A bit set in the narrower type of its field; the higher bits are never set.
pub(super) fn low_bits<T: TryFrom<u64> + Default>(bits: u64) -> T {
    T::try_from(bits).unwrap_or_default()
}

/// A byte index as a count of characters.
pub(super) fn characters(text: &str, index: usize) -> usize {
    text.char_indices().take_while(|(at, _)| *at < index).count()
}
