//! Schedules as pure values. This crate reads no clock and does not depend on tokio.
//!
//! A [`Schedule`] is a [`Cron`] expression in a [`Zone`], an [`Interval`] on
//! the time line, or one instant; with bounds, and without the days of its
//! [`Calendar`]s. [`Spread`] moves the start of a run, never its identity.
//!
//! This is the module `punctual::schedule` of the library. It is a crate of its own so that the
//! attribute `#[punctual::job]` checks a declaration with the same parser while it is compiled.

mod calendar;
mod cron;
mod duration;
mod error;
mod form;
mod hash;
mod interval;
mod near_names;
mod schedule;
mod spread;
mod text;
mod zone;

pub use calendar::{Calendar, DayRule};
pub use cron::{Cron, CronError, CronErrorKind, CronField};
pub use duration::{format_duration, parse_duration};
pub use error::ScheduleError;
pub use hash::stable_hash;
pub use interval::Interval;
pub use near_names::near_words;
pub use schedule::Schedule;
pub use spread::{Spread, SpreadLimit};
pub use text::TextDefaults;
pub use zone::Zone;
