//! The policies of a job as the API shows them.

use std::time::Duration;

use punctual::model::JobRecord;
use punctual::policy::{Backoff, Overlap, Retry};
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::executions::milliseconds;

/// What happens with occurrences that were missed.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct JobMisfireView {
    /// `fire_now`, `fire_once`, `fire_all` or `skip_to_next`.
    policy: &'static str,
    /// An occurrence later than this is missed, not just late. Where it depends on the occurrence, that
    /// of the next one.
    threshold_ms: u64,
    /// Where the threshold comes from: `given` by the job; `default`; or `next_occurrence`, the distance
    /// to it, which bounds the default.
    threshold_from: &'static str,
    /// A missed occurrence older than this is never run; null means that any age is made up for.
    window_ms: Option<u64>,
    /// The most missed occurrences that `fire_all` runs.
    catch_up_max: u32,
}

impl JobMisfireView {
    pub(super) fn new(record: &JobRecord, default: Duration) -> Self {
        let misfire = &record.job.misfire;
        let threshold = record.misfire_threshold(default);
        Self {
            policy: misfire.policy_in_force().as_str(),
            threshold_ms: milliseconds(threshold.length),
            threshold_from: threshold.origin.as_str(),
            window_ms: misfire.window.map(milliseconds),
            catch_up_max: misfire.catch_up_max,
        }
    }
}

/// What happens while the run before is still alive.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct JobOverlapView {
    /// `skip`, `queue_one`, `allow` or `cancel_running`.
    policy: &'static str,
    /// The most runs at once where they are allowed; null means no limit.
    parallel_max: Option<u32>,
}

impl JobOverlapView {
    pub(super) fn new(overlap: Overlap) -> Self {
        let (policy, parallel_max) = match overlap {
            Overlap::Skip => ("skip", None),
            Overlap::QueueOne => ("queue_one", None),
            Overlap::Allow { parallel_max } => ("allow", parallel_max),
            Overlap::CancelRunning => ("cancel_running", None),
        };
        Self { policy, parallel_max }
    }
}

/// How often a failed run is tried again, and when.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub(super) struct JobRetryView {
    /// The most attempts, the first included; null means no limit.
    attempts_max: Option<u32>,
    /// `intervals`, `exponential` or `proportional`.
    backoff: &'static str,
    /// The waits of `intervals`; the last one repeats.
    waits_ms: Vec<u64>,
    /// The first wait of `exponential`.
    first_ms: Option<u64>,
    /// By how much each of its waits is longer than the one before.
    factor: Option<f64>,
    /// The share by which one may be shorter or longer, 0 to 1.
    jitter: Option<f64>,
    /// The share of the original delay of `proportional`.
    ratio: Option<f64>,
    /// The shortest wait.
    floor_ms: Option<u64>,
    /// The longest wait.
    cap_ms: Option<u64>,
}

impl JobRetryView {
    pub(super) fn new(retry: &Retry) -> Self {
        let attempts_max = retry.attempts_max;
        match &retry.backoff {
            Backoff::Intervals(waits) => Self {
                attempts_max,
                backoff: "intervals",
                waits_ms: waits.iter().copied().map(milliseconds).collect(),
                ..Self::default()
            },
            Backoff::Exponential { first, factor, cap, jitter } => Self {
                attempts_max,
                backoff: "exponential",
                first_ms: Some(milliseconds(*first)),
                factor: Some(*factor),
                jitter: Some(*jitter),
                cap_ms: Some(milliseconds(*cap)),
                ..Self::default()
            },
            Backoff::Proportional { ratio, cap, floor } => Self {
                attempts_max,
                backoff: "proportional",
                ratio: Some(*ratio),
                floor_ms: Some(milliseconds(*floor)),
                cap_ms: Some(milliseconds(*cap)),
                ..Self::default()
            },
        }
    }
}
