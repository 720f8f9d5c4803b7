//! Query of the occurrences of an expression: start, direction and count.
//!
//! Everything is checked when the query is built, so that its evaluation cannot
//! fail and is bounded.

use jiff::tz::Offset;
use jiff::{Timestamp, Zoned};
use punctual::schedule::{Cron, CronError, ScheduleError, Zone};

/// Largest number of occurrences of one query.
pub(super) const COUNT_MAX: u64 = 10_000;

/// A valid query.
#[derive(Debug)]
pub(super) struct Query {
    cron: Cron,
    zone: Zone,
    from: Timestamp,
    inclusive: bool,
    count: u64,
    direction: Direction,
}

/// Direction of the search.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Direction {
    #[default]
    Next,
    Prev,
}

/// Error of an invalid query.
#[derive(Debug)]
pub(super) enum QueryError {
    Cron(CronError),
    Zone(ScheduleError),
    Instant(String),
    Count(u64),
}

impl Query {
    /// Creates a query of the first occurrence after `from`, or after now.
    pub(super) fn new(cron: Cron, zone: &str, from: Option<&str>) -> Result<Query, QueryError> {
        Ok(Query {
            cron,
            zone: Zone::named(zone).map_err(QueryError::Zone)?,
            from: match from {
                Some(text) => parse_instant(text)?,
                None => super::now(),
            },
            inclusive: false,
            count: 1,
            direction: Direction::Next,
        })
    }

    pub(super) fn direction(mut self, direction: Direction) -> Query {
        self.direction = direction;
        self
    }

    pub(super) fn inclusive(mut self, inclusive: bool) -> Query {
        self.inclusive = inclusive;
        self
    }

    pub(super) fn count(mut self, count: u64) -> Result<Query, QueryError> {
        if count > COUNT_MAX {
            return Err(QueryError::Count(count));
        }
        self.count = count;
        Ok(self)
    }

    pub(super) fn cron(&self) -> &Cron {
        &self.cron
    }

    pub(super) fn zone(&self) -> &Zone {
        &self.zone
    }

    /// Returns the occurrences, in the direction of the search.
    pub(super) fn occurrences(&self) -> impl Iterator<Item = Timestamp> + '_ {
        let first = if self.inclusive && self.cron.matches(self.from, &self.zone) {
            Some(self.from)
        } else {
            self.step(self.from)
        };
        let count = usize::try_from(self.count).unwrap_or(0);
        std::iter::successors(first, |at| self.step(*at)).take(count)
    }

    fn step(&self, at: Timestamp) -> Option<Timestamp> {
        match self.direction {
            Direction::Next => self.cron.next(at, &self.zone),
            Direction::Prev => self.cron.prev(at, &self.zone),
        }
    }
}

/// Parses RFC 3339 with an offset, optionally followed by a zone in brackets.
fn parse_instant(text: &str) -> Result<Timestamp, QueryError> {
    let invalid = |_| QueryError::Instant(text.chars().take(80).collect());
    if text.contains('[') {
        text.parse::<Zoned>().map(|zoned| zoned.timestamp()).map_err(invalid)
    } else {
        text.parse::<Timestamp>().map_err(invalid)
    }
}

/// Returns an instant as RFC 3339 with the zone's offset, `+00:00` for UTC.
///
/// Old local mean times have offsets with seconds, which RFC 3339 cannot write;
/// they are rounded to the minute and the instant stays exact.
pub(super) fn format_instant(at: Timestamp, zone: &Zone) -> String {
    let seconds = zone.offset(at).seconds();
    let minutes = (seconds + 30).div_euclid(60);
    let offset = Offset::from_seconds(minutes * 60).unwrap_or(Offset::UTC);
    at.display_with_offset(offset).to_string()
}

impl From<CronError> for QueryError {
    fn from(error: CronError) -> QueryError {
        QueryError::Cron(error)
    }
}

impl std::fmt::Display for QueryError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            QueryError::Cron(error) => write!(out, "{error}"),
            QueryError::Zone(error) => write!(out, "{error}"),
            QueryError::Instant(text) => write!(
                out,
                "{text:?} is not an instant up to the year 9999, write one with its offset such as \
                 2026-03-29T01:30:00+01:00"
            ),
            QueryError::Count(count) => {
                write!(out, "the count {count} is too large, use {COUNT_MAX} at most")
            }
        }
    }
}
