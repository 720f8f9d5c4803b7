//! [`Cron`]: a parsed expression with its text. Parsing happens once; every
//! later call works on bit sets, without a clock or a lock.
//!
//! Equality is by meaning: `0` and `7` for Sunday are equal, `31 1 *` and
//! `L 1 *` are not.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use super::error::{CronError, CronErrorKind};
use super::field::Fields;
use super::parse::{LEN_MAX, parse};
use super::{clock_change, describe, text};
use crate::Zone;
use jiff::Timestamp;

/// A cron expression of five fields (minute, hour, day of month, month, day of
/// week) or six with seconds in front.
///
/// Both day fields must match. When clocks go forward, skipped times run once,
/// at the first instant after the gap; when they go back, fixed times run in
/// the first pass only, and times given by a star, range or step in both.
///
/// ```
/// use punctual_schedule::{Cron, Zone};
///
/// let cron: Cron = "30 2 * * *".parse()?;
/// let zone = Zone::named("Europe/Berlin")?;
/// let next = cron.next("2026-03-28T12:00:00Z".parse()?, &zone);
/// assert_eq!(next, Some("2026-03-29T01:00:00Z".parse()?)); // 03:00, there is no 02:30
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Cron {
    pub(super) fields: Fields,
    /// False for dates that no calendar has, such as 30 February.
    happens: bool,
    source: Arc<str>,
    resolved: Option<Arc<str>>,
}

const BLANKS: [char; 2] = [' ', '\t'];

impl Cron {
    /// Parses an expression. `H` is refused, see [`parse_seeded`](Self::parse_seeded).
    pub fn parse(text: &str) -> Result<Cron, CronError> {
        Cron::read(text, None)
    }

    /// Parses an expression in which `H`, `H/n`, `H(a-b)` and `H(a-b)/n` draw
    /// their values from the seed, usually the name of the job.
    pub fn parse_seeded(text: &str, seed: &str) -> Result<Cron, CronError> {
        Cron::read(text, Some(seed))
    }

    fn read(text: &str, seed: Option<&str>) -> Result<Cron, CronError> {
        let parsed = parse(text, seed)?;
        Ok(Cron {
            fields: parsed.fields,
            happens: parsed.fields.happens(),
            source: text.trim_matches(BLANKS).into(),
            resolved: parsed.resolved.map(|text| text.trim_matches(BLANKS).into()),
        })
    }

    /// Restores a stored expression: the text as given, and the one with its drawn values.
    pub(crate) fn restored(source: &str, resolved: &str) -> Result<Cron, CronError> {
        let mut cron = Cron::parse(resolved)?;
        cron.resolved = Some(cron.source);
        cron.source = source.chars().take(LEN_MAX).collect::<String>().into();
        Ok(cron)
    }

    /// Returns the text as it was given.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the text with every `H` replaced by the value it drew: it parses without a
    /// seed to the same expression. The source itself when it has no `H`.
    pub fn resolved(&self) -> &str {
        self.resolved.as_ref().unwrap_or(&self.source)
    }

    /// Returns whether a star, range or step in second, minute or hour makes it follow
    /// elapsed time, so that it runs in both passes of a repeated hour.
    pub fn is_interval_like(&self) -> bool {
        self.fields.interval_like
    }

    /// Returns whether any date matches; `0 0 30 2 *` never happens.
    pub fn happens(&self) -> bool {
        self.happens
    }

    /// Returns the first occurrence strictly after an instant, or `None` when there is none up
    /// to the end of the year 9999.
    pub fn next(&self, after: Timestamp, zone: &Zone) -> Option<Timestamp> {
        if self.happens { clock_change::next(&self.fields, after, zone) } else { None }
    }

    /// Returns the last occurrence strictly before an instant, not before the year 1.
    /// Walks the same instants as [`next`](Self::next).
    pub fn prev(&self, before: Timestamp, zone: &Zone) -> Option<Timestamp> {
        if self.happens { clock_change::prev(&self.fields, before, zone) } else { None }
    }

    /// Returns whether the wall clock reads a time of this expression at an instant: the
    /// start of an inclusive search.
    ///
    /// A run that was moved out of a gap does not count: the clock reads 03:00
    /// and the field is 02:30. So a scheduler searches for the first one after the
    /// last planned time, and never inclusively.
    pub fn matches(&self, at: Timestamp, zone: &Zone) -> bool {
        clock_change::matches(&self.fields, at, zone)
    }

    /// Returns the occurrences from an instant (inclusive) until another (exclusive).
    pub fn between<'c>(
        &'c self,
        from: Timestamp,
        until: Timestamp,
        zone: &'c Zone,
    ) -> Result<impl Iterator<Item = Timestamp> + 'c, CronError> {
        if from > until {
            return Err(CronError::new(
                CronErrorKind::Range,
                format!("the range starts at {from}, after its end {until}"),
            ));
        }
        let first = if self.matches(from, zone) { Some(from) } else { self.next(from, zone) };
        Ok(std::iter::successors(first, move |at| self.next(*at, zone))
            .take_while(move |at| *at < until))
    }

    /// Returns the expression in words.
    pub fn describe(&self) -> String {
        describe::describe(&self.fields, self.happens)
    }

    /// Returns what happens to its times when the clocks of a zone change, in words.
    pub fn clock_change_note(&self) -> &'static str {
        describe::clock_change_note(&self.fields)
    }
}

/// The canonical text: sorted values, `*` for a full field, no seconds when
/// they are just 0.
///
/// It shows which wall clock times are meant, but not whether they were listed
/// or stepped, so [`resolved`](Cron::resolved) is the text to store.
impl fmt::Display for Cron {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::write(&self.fields, out)
    }
}

impl fmt::Debug for Cron {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Cron({:?})", self.resolved())
    }
}

impl FromStr for Cron {
    type Err = CronError;

    fn from_str(text: &str) -> Result<Cron, CronError> {
        Cron::parse(text)
    }
}

impl PartialEq for Cron {
    fn eq(&self, other: &Cron) -> bool {
        self.fields == other.fields
    }
}

impl Eq for Cron {}

impl Hash for Cron {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.fields.hash(state);
    }
}
