//! Policy views of a job: misfire, overlap and retry.

use std::time::Duration;

use punctual::model::{BackOffKind, JobRecord, Overlap, Retry};
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::executions::milliseconds;

/// Misfire policy: what happens to missed occurrences.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct JobMisfireView {
    /// `fire_now`, `fire_once`, `fire_all` or `skip_to_next`.
    policy: &'static str,
    /// Misfire threshold in milliseconds: an occurrence later than this is missed, not only late. Where it depends on
    /// the occurrence, the one of the next occurrence.
    threshold_ms: u64,
    /// Origin of the threshold: `given` by the job, `default`, or `next_occurrence` for the distance to the next
    /// occurrence, which bounds the default.
    threshold_from: &'static str,
    /// Largest age of a missed occurrence that is still run, in milliseconds; null without a limit.
    window_ms: Option<u64>,
    /// Largest number of missed occurrences that `fire_all` runs.
    catch_up_max: u32,
}

impl JobMisfireView {
    pub(super) fn new(record: &JobRecord, default: Duration) -> Self {
        let misfire = &record.job.misfire;
        let threshold = record.misfire_threshold(default);
        Self {
            policy: misfire.policy_in_force().as_str(),
            threshold_ms: milliseconds(threshold.duration),
            threshold_from: threshold.origin.as_str(),
            window_ms: misfire.window.map(milliseconds),
            catch_up_max: misfire.catch_up_max,
        }
    }
}

/// Overlap policy: what happens while the previous run is unfinished.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct JobOverlapView {
    /// `skip`, `queue_one`, `allow` or `cancel_running`.
    policy: &'static str,
    /// Largest number of parallel runs for `allow`; null without a limit.
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

/// Retry policy of failed runs.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub(super) struct JobRetryView {
    /// Largest number of attempts, including the first; null without a limit.
    attempts_max: Option<u32>,
    /// Back-off: `intervals`, `exponential` or `proportional`.
    backoff: &'static str,
    /// Waits of `intervals` in milliseconds; the last one repeats.
    waits_ms: Vec<u64>,
    /// First wait of `exponential` in milliseconds.
    first_ms: Option<u64>,
    /// Factor between two waits of `exponential`.
    factor: Option<f64>,
    /// Random part of a wait of `exponential`, 0 to 1.
    jitter: Option<f64>,
    /// Wait of `proportional` as a part of the original delay.
    ratio: Option<f64>,
    /// Shortest wait in milliseconds.
    floor_ms: Option<u64>,
    /// Longest wait in milliseconds.
    cap_ms: Option<u64>,
}

impl JobRetryView {
    pub(super) fn new(retry: &Retry) -> Self {
        let attempts_max = retry.attempts_max;
        match &retry.backoff {
            BackOffKind::Intervals(waits) => Self {
                attempts_max,
                backoff: "intervals",
                waits_ms: waits.iter().copied().map(milliseconds).collect(),
                ..Self::default()
            },
            BackOffKind::Exponential { first, factor, cap, jitter } => Self {
                attempts_max,
                backoff: "exponential",
                first_ms: Some(milliseconds(*first)),
                factor: Some(*factor),
                jitter: Some(*jitter),
                cap_ms: Some(milliseconds(*cap)),
                ..Self::default()
            },
            BackOffKind::Proportional { ratio, cap, floor } => Self {
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
