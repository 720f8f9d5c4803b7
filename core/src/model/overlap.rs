//! Overlap: the setting of a job for an occurrence while the previous run is alive.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::spelling::normalized;
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
    pub(crate) fn alive_limit(self) -> Option<u32> {
        match self {
            Self::Skip => Some(1),
            Self::QueueOne => Some(2),
            Self::Allow { parallel_max } => parallel_max,
            Self::CancelRunning => None,
        }
    }
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
