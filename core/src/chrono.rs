//! Chrono conversions, for applications that use the crate `chrono`. Punctual itself uses `jiff`;
//! nothing else depends on `chrono`.
//!
//! The methods that take an instant take a [`Timestamp`] and nothing else, so that
//! `.at("2026-03-02T07:00:00Z".parse()?)` needs no annotation. The two most used methods have variants,
//! [`Publish::at_chrono`] and [`Once::at_chrono`]; for all others use [`instant`] and [`duration`].
//!
//! ```
//! # async fn example(punctual: punctual::Punctual) -> punctual::Result<()> {
//! use punctual::chrono::{DateTime, TimeDelta, Utc, date_time, instant};
//!
//! let paid_at: DateTime<Utc> = date_time(punctual::testing::START);
//! let publisher = punctual.publisher();
//! publisher.publish("reminder", "invoice 7").at_chrono(paid_at + TimeDelta::days(14)).await?;
//! publisher.publish("reminder", "invoice 8").after_chrono(TimeDelta::days(14)).await?;
//! let job = punctual::Job::cron("invoices", "0 9 * * *").start(instant(paid_at)?);
//! # let _ = job;
//! # Ok(())
//! # }
//! ```

pub use ::chrono::{DateTime, TimeDelta, TimeZone, Utc};

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::client::Once;
use crate::error::{Error, Result};
use crate::sending::Publish;

const NANOSECONDS: i128 = 1_000_000_000;

/// Returns the instant of a date and time in any zone. Years beyond 9999 are refused; a leap second is the
/// second after it.
pub fn instant<Z: TimeZone>(date_time: DateTime<Z>) -> Result<Timestamp> {
    let seconds = i128::from(date_time.timestamp());
    let nanoseconds = seconds * NANOSECONDS + i128::from(date_time.timestamp_subsec_nanos());
    Timestamp::from_nanosecond(nanoseconds).map_err(|error| {
        let when = date_time.naive_utc();
        Error::invalid(format!(
            "the instant {when} UTC is out of range, use the years -9999 to 9999"
        ))
        .caused_by(error)
    })
}

/// Returns the date and time of an instant, in UTC.
pub fn date_time(instant: Timestamp) -> DateTime<Utc> {
    let nanoseconds = instant.as_nanosecond();
    let second = i64::try_from(nanoseconds.div_euclid(NANOSECONDS));
    let rest = u32::try_from(nanoseconds.rem_euclid(NANOSECONDS));
    // Every instant of `jiff` is one of `chrono`, whose years go up to 262,000.
    match (second, rest) {
        (Ok(second), Ok(rest)) => DateTime::from_timestamp(second, rest).unwrap_or_default(),
        _ => DateTime::UNIX_EPOCH,
    }
}

/// Returns a duration to wait. Fails for a negative one.
pub fn duration(delta: TimeDelta) -> Result<Duration> {
    delta.to_std().map_err(|error| {
        Error::invalid(format!("the duration {delta} is negative; give one of zero or more"))
            .caused_by(error)
    })
}

/// Returns a duration, which may be negative.
pub fn signed_duration(delta: TimeDelta) -> SignedDuration {
    SignedDuration::new(delta.num_seconds(), delta.subsec_nanos())
}

/// Returns the duration as `chrono` writes it. One that is too long for `chrono`, beyond 292 million years,
/// becomes its longest.
pub fn time_delta(duration: SignedDuration) -> TimeDelta {
    let whole = TimeDelta::try_seconds(duration.as_secs());
    let rest = TimeDelta::nanoseconds(i64::from(duration.subsec_nanos()));
    let limit = if duration.is_negative() { TimeDelta::MIN } else { TimeDelta::MAX };
    whole.and_then(|whole| whole.checked_add(&rest)).unwrap_or(limit)
}

impl Publish {
    /// [`Publish::at`] for a date and time of `chrono`.
    pub fn at_chrono<Z: TimeZone>(self, due_at: DateTime<Z>) -> Self {
        match instant(due_at) {
            Ok(instant) => self.at(instant),
            Err(error) => self.refused(error),
        }
    }

    /// [`Publish::after`] for a duration of `chrono`.
    pub fn after_chrono(self, wait: TimeDelta) -> Self {
        match duration(wait) {
            Ok(wait) => self.after(wait),
            Err(error) => self.refused(error),
        }
    }
}

impl Once {
    /// [`Once::at`] for a date and time of `chrono`.
    pub fn at_chrono<Z: TimeZone>(self, due_at: DateTime<Z>) -> Self {
        self.map(|publish| publish.at_chrono(due_at))
    }

    /// [`Once::after`] for a duration of `chrono`.
    pub fn after_chrono(self, wait: TimeDelta) -> Self {
        self.map(|publish| publish.after_chrono(wait))
    }
}

#[cfg(test)]
mod tests;
