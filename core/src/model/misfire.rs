//! Misfire: settings of a job for missed occurrences, and what counts as missed. The names are read in every
//! usual spelling and printed in one. The decision itself is in [`plan`](super::plan()).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::spelling::normalized;
use crate::error::{Error, Result};
use crate::model::time::between;
use crate::schedule::Schedule;

/// Default threshold of jobs and options without one of their own.
pub(crate) const THRESHOLD_DEFAULT: Duration = Duration::from_mins(1);
/// Threshold of a job that sets a policy but no threshold.
const THRESHOLD_CHOSEN_DEFAULT: Duration = Duration::from_mins(5);
/// Default number of missed occurrences that [`MisfirePolicy::FireAll`] runs.
const CATCH_UP_MAX_DEFAULT: u32 = 100;
/// Largest number of missed occurrences that [`MisfirePolicy::FireAll`] runs.
pub(crate) const CATCH_UP_LIMIT: u32 = 10_000;

/// Policy for missed occurrences.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case", try_from = "String")]
pub enum MisfirePolicy {
    /// One immediate run for all of them, with the nominal time of the oldest.
    #[default]
    FireNow,
    /// One immediate run for all of them, with the nominal time of the newest.
    FireOnce,
    /// One run for each, oldest first, up to a limit.
    FireAll,
    /// No run; the next occurrence runs normally.
    SkipToNext,
}

/// Treatment of missed occurrences: the policy and what counts as missed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[must_use]
pub struct Misfire {
    /// Policy; [`MisfirePolicy::FireNow`] when not set.
    pub policy: Option<MisfirePolicy>,
    /// Lateness above which (strictly) an occurrence is missed, not just late. Without one the default applies,
    /// but never more than the distance to the next occurrence; see [`Misfire::threshold_in_force`].
    #[serde(with = "crate::model::duration_text")]
    pub threshold: Option<Duration>,
    /// Age above which a missed occurrence is never run; none means no limit.
    #[serde(with = "crate::model::duration_text")]
    pub window: Option<Duration>,
    /// Largest number of missed occurrences that [`MisfirePolicy::FireAll`] runs; the newest are run.
    pub catch_up_max: u32,
}

/// Threshold of an occurrence, and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// Lateness above which (strictly) the occurrence is missed.
    pub duration: Duration,
    /// Where the threshold comes from.
    pub origin: ThresholdOrigin,
}

/// Origin of a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThresholdOrigin {
    /// The job sets it.
    Given,
    /// It is the default.
    Default,
    /// It is the distance to the next occurrence, which is shorter than the default.
    NextOccurrence,
}

impl ThresholdOrigin {
    /// Returns the origin as text in snake case.
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
    /// Returns the policy [`MisfirePolicy::FireNow`] with default settings.
    pub fn fire_now() -> Self {
        MisfirePolicy::FireNow.into()
    }

    /// Returns the policy [`MisfirePolicy::FireOnce`] with default settings.
    pub fn fire_once() -> Self {
        MisfirePolicy::FireOnce.into()
    }

    /// Returns the policy [`MisfirePolicy::FireAll`] with default settings.
    pub fn fire_all() -> Self {
        MisfirePolicy::FireAll.into()
    }

    /// Returns the policy [`MisfirePolicy::SkipToNext`] with default settings.
    pub fn skip_to_next() -> Self {
        MisfirePolicy::SkipToNext.into()
    }

    /// Sets the lateness above which (strictly) an occurrence is missed.
    pub fn threshold(mut self, threshold: Duration) -> Self {
        self.threshold = Some(threshold);
        self
    }

    /// Sets the age above which a missed occurrence is never run.
    pub fn window(mut self, window: Duration) -> Self {
        self.window = Some(window);
        self
    }

    /// Sets the largest number of missed occurrences that are run.
    pub fn catch_up_max(mut self, most: u32) -> Self {
        self.catch_up_max = most;
        self
    }

    /// Returns the policy in force.
    pub fn policy_in_force(&self) -> MisfirePolicy {
        self.policy.unwrap_or_default()
    }

    /// Returns the longest threshold in force: the job's own, else five minutes where it sets a policy, else
    /// the option of the scheduler.
    pub(crate) fn threshold_max(&self, default: Duration) -> Duration {
        self.threshold.unwrap_or(match self.policy {
            Some(_) => THRESHOLD_CHOSEN_DEFAULT,
            None => default,
        })
    }

    /// Returns the threshold of an occurrence: the job's own if set, else five minutes where the job sets a
    /// policy, else the option of the scheduler; one that is not the job's own is never more than the distance
    /// to the next occurrence.
    pub fn threshold_in_force(
        &self,
        schedule: &Schedule,
        occurrence: Timestamp,
        default: Duration,
    ) -> Threshold {
        let duration = self.threshold_max(default);
        if self.threshold.is_some() {
            return Threshold { duration, origin: ThresholdOrigin::Given };
        }
        match schedule.next(occurrence).map(|next| between(occurrence, next)) {
            Some(distance) if distance < duration => {
                Threshold { duration: distance, origin: ThresholdOrigin::NextOccurrence }
            }
            _ => Threshold { duration, origin: ThresholdOrigin::Default },
        }
    }

    /// Fails when the settings can never work.
    pub fn check(&self) -> Result<()> {
        match self.catch_up_max {
            0 => Err(Error::invalid(
                "catch_up_max is 0, so no missed occurrence would run; use the policy skip_to_next",
            )),
            most if most > CATCH_UP_LIMIT => Err(Error::invalid(format!(
                "catch_up_max is {most}; at most {CATCH_UP_LIMIT} missed occurrences can run"
            ))),
            _ => Ok(()),
        }
    }
}

impl MisfirePolicy {
    /// Every policy.
    pub const ALL: [Self; 4] = [Self::FireNow, Self::FireOnce, Self::FireAll, Self::SkipToNext];

    /// Returns the name that is printed and stored.
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
        match normalized(text).as_str() {
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
