//! Misfire: how a job wants occurrences treated that were missed, and what counts as missed. The
//! names are read in every usual spelling and printed in one. The decision itself is in
//! [`plan`](super::plan()).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::spelling::plain;
use crate::clock::between;
use crate::error::{Error, Result};
use crate::schedule::Schedule;

/// An occurrence later than this is a misfire, where neither job nor options say otherwise.
pub const THRESHOLD_DEFAULT: Duration = Duration::from_mins(1);
/// The threshold of a job that chose a policy but no threshold.
pub const THRESHOLD_CHOSEN_DEFAULT: Duration = Duration::from_mins(5);
/// How many missed occurrences [`MisfirePolicy::FireAll`] makes up for unless told otherwise.
pub const CATCH_UP_MAX_DEFAULT: u32 = 100;
/// The most a job may ask [`MisfirePolicy::FireAll`] to make up for.
pub const CATCH_UP_LIMIT: u32 = 10_000;

/// What to do with missed occurrences.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case", try_from = "String")]
pub enum MisfirePolicy {
    /// One run at once for all of them, in the name of the oldest.
    #[default]
    FireNow,
    /// One run at once for all of them, in the name of the newest.
    FireOnce,
    /// One run for each, oldest first, up to a limit.
    FireAll,
    /// None; the next occurrence runs normally.
    SkipToNext,
}

/// How a job treats missed occurrences: the policy and what counts as missed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[must_use]
pub struct Misfire {
    /// The policy, when one was chosen; otherwise [`MisfirePolicy::FireNow`] applies.
    pub policy: Option<MisfirePolicy>,
    /// An occurrence strictly later than this is missed, not just late. Without one the default applies,
    /// but never more than the distance to the next occurrence; see [`Misfire::threshold_in_force`].
    #[serde(with = "crate::model::duration_text")]
    pub threshold: Option<Duration>,
    /// A missed occurrence older than this is never run; none means that any age is made up for.
    #[serde(with = "crate::model::duration_text")]
    pub window: Option<Duration>,
    /// The most missed occurrences that [`MisfirePolicy::FireAll`] runs; the newest are kept.
    pub catch_up_max: u32,
}

/// The threshold that applies to an occurrence, and why it has this length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// An occurrence strictly later than this is missed.
    pub length: Duration,
    /// Where the length comes from.
    pub origin: ThresholdOrigin,
}

/// Where a threshold comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThresholdOrigin {
    /// The job gives it.
    Given,
    /// It is the default.
    Default,
    /// It is the distance to the next occurrence, which is shorter than the default.
    NextOccurrence,
}

impl ThresholdOrigin {
    /// The origin in lower-case words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Given => "given",
            Self::Default => "default",
            Self::NextOccurrence => "next_occurrence",
        }
    }
}

impl Default for Misfire {
    fn default() -> Self {
        Self { policy: None, threshold: None, window: None, catch_up_max: CATCH_UP_MAX_DEFAULT }
    }
}

impl From<MisfirePolicy> for Misfire {
    fn from(policy: MisfirePolicy) -> Self {
        Self { policy: Some(policy), ..Self::default() }
    }
}

impl Misfire {
    /// One run at once for all that were missed, in the name of the oldest.
    pub fn fire_now() -> Self {
        MisfirePolicy::FireNow.into()
    }

    /// One run at once for all that were missed, in the name of the newest.
    pub fn fire_once() -> Self {
        MisfirePolicy::FireOnce.into()
    }

    /// One run for each that was missed, oldest first.
    pub fn fire_all() -> Self {
        MisfirePolicy::FireAll.into()
    }

    /// No run for what was missed.
    pub fn skip_to_next() -> Self {
        MisfirePolicy::SkipToNext.into()
    }

    /// Calls an occurrence missed when it is strictly later than this.
    pub fn threshold(mut self, threshold: Duration) -> Self {
        self.threshold = Some(threshold);
        self
    }

    /// Never runs what is older than this.
    pub fn window(mut self, window: Duration) -> Self {
        self.window = Some(window);
        self
    }

    /// Makes up for at most so many.
    pub fn catch_up_max(mut self, most: u32) -> Self {
        self.catch_up_max = most;
        self
    }

    /// The policy that applies.
    pub fn policy_in_force(&self) -> MisfirePolicy {
        self.policy.unwrap_or_default()
    }

    /// The longest threshold that applies: its own, else five minutes where a policy was chosen, else
    /// the option of the scheduler.
    pub(crate) fn threshold_max(&self, default: Duration) -> Duration {
        self.threshold.unwrap_or(match self.policy {
            Some(_) => THRESHOLD_CHOSEN_DEFAULT,
            None => default,
        })
    }

    /// The threshold that applies to an occurrence of a schedule: its own where one is given. Otherwise
    /// five minutes where a policy was chosen, else the option of the scheduler, and never more than
    /// the distance to the next occurrence.
    pub fn threshold_in_force(
        &self,
        schedule: &Schedule,
        occurrence: Timestamp,
        default: Duration,
    ) -> Threshold {
        let length = self.threshold_max(default);
        if self.threshold.is_some() {
            return Threshold { length, origin: ThresholdOrigin::Given };
        }
        match schedule.next(occurrence).map(|next| between(occurrence, next)) {
            Some(distance) if distance < length => {
                Threshold { length: distance, origin: ThresholdOrigin::NextOccurrence }
            }
            _ => Threshold { length, origin: ThresholdOrigin::Default },
        }
    }

    /// Refuses what can never work, and says what would.
    pub fn check(&self) -> Result<()> {
        match self.catch_up_max {
            0 => Err(Error::invalid(
                "catch_up_max is 0, which makes up for nothing; use the policy skip_to_next",
            )),
            most if most > CATCH_UP_LIMIT => Err(Error::invalid(format!(
                "catch_up_max is {most}; at most {CATCH_UP_LIMIT} missed occurrences can be made up for"
            ))),
            _ => Ok(()),
        }
    }
}

impl MisfirePolicy {
    /// Every policy.
    pub const ALL: [Self; 4] = [Self::FireNow, Self::FireOnce, Self::FireAll, Self::SkipToNext];

    /// The one name that is printed and stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FireNow => "fire_now",
            Self::FireOnce => "fire_once",
            Self::FireAll => "fire_all",
            Self::SkipToNext => "skip_to_next",
        }
    }
}

impl fmt::Display for MisfirePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for MisfirePolicy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match plain(text).as_str() {
            "firenow" | "fireimmediately" => Ok(Self::FireNow),
            "fireonce" => Ok(Self::FireOnce),
            "fireall" => Ok(Self::FireAll),
            "skiptonext" | "skipandschedulenext" => Ok(Self::SkipToNext),
            _ => {
                let start: String = text.chars().take(40).collect();
                Err(Error::invalid(format!(
                    "there is no misfire policy {start:?}; use fire_now, fire_once, fire_all or skip_to_next"
                )))
            }
        }
    }
}

impl TryFrom<String> for MisfirePolicy {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

#[cfg(test)]
mod tests;
