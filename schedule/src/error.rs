//! Schedule errors: every message names the value and the way out.

use super::cron::CronError;

/// A schedule, or a part of one, that is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// The cron text is wrong.
    #[error(transparent)]
    Cron(#[from] CronError),
    /// No such time zone.
    #[error("there is no time zone {name:?}, {hint}")]
    Zone {
        /// The name that was given.
        name: String,
        /// Similar names, or the expected form of a name.
        hint: String,
    },
    /// The duration cannot be read, or is out of bounds.
    #[error("the duration {text:?} {problem}")]
    Duration {
        /// The duration as it was given.
        text: String,
        /// The mistake, and what would be valid.
        problem: String,
    },
    /// The instant cannot be read.
    #[error("{text:?} is not an instant, write one such as 2026-03-29T09:00:00+02:00")]
    Instant {
        /// The text as it was given.
        text: String,
    },
    /// The schedule starts after its end.
    #[error("the schedule starts at {start_at}, after its end {end_at}; swap them or drop one")]
    Bounds {
        /// The first instant that may be an occurrence.
        start_at: jiff::Timestamp,
        /// The first instant after the schedule.
        end_at: jiff::Timestamp,
    },
    /// A calendar, spread or count of a schedule is wrong.
    #[error("{part} {text:?}: {problem}")]
    Part {
        /// The name of the part, such as `spread`.
        part: &'static str,
        /// The part as it was given.
        text: String,
        /// The mistake, and what would be valid.
        problem: String,
    },
}
