//! Overlap: decides from the number of alive runs of a job which occurrences run. Alive means running, due and
//! waiting, or waiting for a retry; a run that is planned for later is not. In every case the schedule moves
//! on: an occurrence that does not run is skipped for good.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::spelling::normalized;
use super::{MisfirePolicy, PlannedOccurrence};
use crate::error::{Error, Result};

/// Policy for an occurrence while the previous run is alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Overlap {
    /// Skip the occurrence.
    #[default]
    Skip,
    /// Queue the occurrence behind it; a third one is skipped.
    QueueOne,
    /// Run the occurrence concurrently.
    Allow {
        /// Largest number of alive runs; none means no limit.
        parallel_max: Option<u32>,
    },
    /// Cancel the previous run and run the occurrence.
    CancelRunning,
}

impl Overlap {
    /// Fails when nothing could ever run.
    pub fn check(self) -> Result<()> {
        match self {
            Self::Allow { parallel_max: Some(0) } => Err(Error::invalid(
                "the overlap allow(0) would never run anything; allow at least 1, or pause the job",
            )),
            _ => Ok(()),
        }
    }

    /// Returns the number of runs that may be alive; none means no limit.
    fn alive_limit(self) -> Option<u32> {
        match self {
            Self::Skip => Some(1),
            Self::QueueOne => Some(2),
            Self::Allow { parallel_max } => parallel_max,
            Self::CancelRunning => None,
        }
    }
}

/// Decision about occurrences, and the condition under which a storage may store it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OverlapDecision {
    /// Occurrences that run, oldest first.
    pub fire: Vec<PlannedOccurrence>,
    /// Occurrences that are skipped, oldest first.
    pub skipped: Vec<PlannedOccurrence>,
    /// Number of alive messages of the job up to which the decision is valid; none means it is always valid.
    pub alive_max: Option<u32>,
    /// Whether the alive messages are cancelled first.
    pub cancel_alive: bool,
}

/// Decides which of the candidates, oldest first, run while so many messages of the job are alive.
///
/// Each is compared with what was alive before the decision: the runs of one decision run one after another and
/// never make each other skip. Runs of [`MisfirePolicy::FireAll`] are always admitted, because that policy
/// promises one for each missed occurrence.
pub fn admit(overlap: Overlap, alive: u32, candidates: Vec<PlannedOccurrence>) -> OverlapDecision {
    if overlap == Overlap::CancelRunning {
        let cancel_alive = !candidates.is_empty();
        return OverlapDecision { fire: candidates, cancel_alive, ..OverlapDecision::default() };
    }
    let Some(limit) = overlap.alive_limit() else {
        return OverlapDecision { fire: candidates, ..OverlapDecision::default() };
    };
    if alive < limit {
        let alive_max = (!candidates.iter().all(is_promised)).then(|| limit - 1);
        return OverlapDecision { fire: candidates, alive_max, ..OverlapDecision::default() };
    }
    let (fire, skipped) = candidates.into_iter().partition(is_promised);
    OverlapDecision { fire, skipped, ..OverlapDecision::default() }
}

/// Returns how many runs of one decision may run concurrently; none means no limit. Several late runs of a job
/// never start at one instant, unless [`MisfirePolicy::FireAll`] requires it.
pub(crate) fn at_once_max(overlap: Overlap, policy: MisfirePolicy) -> Option<u32> {
    match (overlap, policy) {
        (Overlap::Allow { parallel_max }, MisfirePolicy::FireAll) => parallel_max,
        _ => Some(1),
    }
}

fn is_promised(planned: &PlannedOccurrence) -> bool {
    planned.misfire.as_ref().is_some_and(|facts| facts.policy == MisfirePolicy::FireAll)
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Skip => f.write_str("skip"),
            Self::QueueOne => f.write_str("queue_one"),
            Self::Allow { parallel_max: None } => f.write_str("allow"),
            Self::Allow { parallel_max: Some(most) } => write!(f, "allow({most})"),
            Self::CancelRunning => f.write_str("cancel_running"),
        }
    }
}

impl FromStr for Overlap {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let unknown = || {
            let start: String = text.chars().take(40).collect();
            Error::invalid(format!(
                "there is no overlap policy {start:?}; use skip, queue_one, allow, allow(3) or cancel_running"
            ))
        };
        let (name, limit) = match text.trim().split_once('(') {
            Some((name, rest)) => {
                let limit = rest.strip_suffix(')').and_then(|limit| limit.trim().parse().ok());
                (name, Some(limit.ok_or_else(unknown)?))
            }
            None => (text, None),
        };
        let overlap = match (normalized(name).as_str(), limit) {
            ("skip" | "skipifrunning", None) => Self::Skip,
            ("queueone", None) => Self::QueueOne,
            ("allow", parallel_max) => Self::Allow { parallel_max },
            ("cancelrunning", None) => Self::CancelRunning,
            _ => return Err(unknown()),
        };
        overlap.check()?;
        Ok(overlap)
    }
}

impl TryFrom<String> for Overlap {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Overlap> for String {
    fn from(overlap: Overlap) -> Self {
        overlap.to_string()
    }
}

#[cfg(test)]
mod tests;
