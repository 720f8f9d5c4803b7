//! Occurrence: one instant of a job's schedule. Job and instant together are its identity, so two processes can
//! never fire it twice.

use crate::model::MisfirePolicy;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{JobName, Key};

/// Instant of a schedule; also the payload of a job's handler when the job has none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occurrence {
    /// Job of the schedule.
    pub job: JobName,
    /// Nominal instant on the schedule, independent of the actual start.
    pub nominal: Timestamp,
    /// Schedule as text, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// Facts about missed occurrences that this run replaces, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misfire: Option<MisfireFacts>,
}

impl Occurrence {
    /// Returns the deduplication key: while a message of this occurrence is alive there is no second one.
    pub fn identity(job: &JobName, nominal: Timestamp) -> Key {
        // A job name fits a key; the instant is appended, so the key may exceed the limit of names.
        Key::composed(format!("{job}@{nominal}"))
    }
}

/// Facts about the missed occurrences that a run replaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MisfireFacts {
    /// Policy that decided on this run.
    pub policy: MisfirePolicy,
    /// Missed instant that this run has as its nominal time.
    pub misfired_from: Timestamp,
    /// Number of missed occurrences; with `missed_more` at least that many.
    pub missed_count: u64,
    /// Whether counting stopped at its limit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub missed_more: bool,
    /// When the scheduler detected it.
    pub detected_at: Timestamp,
    /// Delay of this instant at the detection, in milliseconds.
    pub delay_ms: u64,
    /// Position of this run among those fired together, from 0.
    #[serde(default)]
    pub index: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: U-3
    #[test]
    fn is_a_value_with_equality_that_reads_back_from_json() {
        let occurrence = Occurrence {
            job: JobName::new("nightly").unwrap(),
            nominal: Timestamp::from_second(1_700_000_000).unwrap(),
            schedule: Some("0 2 * * *".to_owned()),
            misfire: None,
        };
        let text = serde_json::to_string(&occurrence).unwrap();
        assert_eq!(serde_json::from_str::<Occurrence>(&text).unwrap(), occurrence);
        let identity = Occurrence::identity(&occurrence.job, occurrence.nominal);
        assert_eq!(identity.as_str(), "nightly@2023-11-14T22:13:20Z");
    }
}
