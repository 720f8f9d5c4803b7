//! Overlap: what happens with an occurrence while the run before is still alive. Alive means running,
//! due and waiting, or waiting for a retry; a run that is planned for later is not. Whatever is
//! decided, the schedule moves on: an occurrence that does not run is skipped for good, never looked at
//! again.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::spelling::plain;
use super::{MisfirePolicy, PlannedOccurrence};
use crate::error::{Error, Result};

/// What to do while the run before is still alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Overlap {
    /// Not run.
    #[default]
    Skip,
    /// Wait behind it; a third one is skipped.
    QueueOne,
    /// Run beside it.
    Allow {
        /// The most runs alive at once; none means no limit.
        parallel_max: Option<u32>,
    },
    /// Cancel it and run instead.
    CancelRunning,
}

impl Overlap {
    /// Refuses what could never run.
    pub fn check(self) -> Result<()> {
        match self {
            Self::Allow { parallel_max: Some(0) } => Err(Error::invalid(
                "the overlap allow(0) would never run anything; allow at least 1, or pause the job",
            )),
            _ => Ok(()),
        }
    }

    /// How many runs may be alive at once; none means no limit.
    fn alive_limit(self) -> Option<u32> {
        match self {
            Self::Skip => Some(1),
            Self::QueueOne => Some(2),
            Self::Allow { parallel_max } => parallel_max,
            Self::CancelRunning => None,
        }
    }
}

/// Which occurrences run, and under which condition a storage may store that.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OverlapDecision {
    /// Those that run, oldest first.
    pub fire: Vec<PlannedOccurrence>,
    /// Those that do not, oldest first.
    pub skipped: Vec<PlannedOccurrence>,
    /// The most messages of the job that may be alive for this still to be right; none means that
    /// it does not matter.
    pub alive_max: Option<u32>,
    /// Whether what is alive is cancelled first.
    pub cancel_alive: bool,
}

/// Decides which of the candidates, oldest first, run while so many messages of the job are alive.
///
/// Each is judged against what was alive before the decision: the runs of one decision take turns and
/// never make each other skip. Runs of [`MisfirePolicy::FireAll`] are always admitted, because that
/// policy promises one for each missed occurrence.
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

/// How many runs of one decision may run at once; none means no limit. More than one run of a job is
/// never started late at one instant, unless [`MisfirePolicy::FireAll`] asks for it.
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
        let overlap = match (plain(name).as_str(), limit) {
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
