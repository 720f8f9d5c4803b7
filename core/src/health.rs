//! Health of a process: the findings of a check, and the condition that follows from them. A check changes
//! nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Serialize, Serializer};

pub use crate::engine::LastTurn;
use crate::inspect::Counts;
use crate::model::time::between;
use crate::model::{Queue, Topic};
pub use crate::stop::Lifecycle;
use crate::storage::TopicFilter;

/// A queue without a worker is reported when its oldest due message is late by more than this.
pub(crate) const UNSERVED_AFTER: Duration = Duration::from_secs(60);
/// A message of a topic without a handler is reported when it is at least this late.
pub(crate) const UNHANDLED_AFTER: Duration = Duration::from_secs(60);
/// A process whose services made no progress for this many poll intervals is unhealthy.
const TICKS_MISSED_MAX: u32 = 10;
/// Shortest time without progress after which a process is unhealthy.
const STANDSTILL_MIN: Duration = Duration::from_secs(30);
/// The service that has a turn at every poll interval, also without work.
const TICKING: &str = "poller";

/// The condition of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// Everything works.
    Healthy,
    /// It works, but an operator should check it.
    Degraded,
    /// It does not do its work.
    Unhealthy,
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Healthy => "healthy",
            Self::Degraded => "degraded",
            Self::Unhealthy => "unhealthy",
        })
    }
}

/// Facts that the caller of [`Admin::health_with`](crate::client::Admin::health_with) already has.
#[derive(Clone, Debug, Default)]
pub struct KnownFacts {
    /// Counts that were read before; they save a query that is expensive and frequent.
    pub counts: Option<Arc<Counts>>,
    /// The topics that all processes together handle, by queue. Other queues are not checked for messages
    /// without a handler. `None` when only the handlers of this process are known.
    pub handled: Option<Vec<(Queue, TopicFilter)>>,
}

/// The oldest due message of a queue, when no handler of its topic is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnhandledMessage {
    /// The queue it waits in.
    pub queue: Queue,
    /// Its topic; `None` when the message was not among those that were read.
    pub topic: Option<Topic>,
    /// When it was due.
    pub due_at: Timestamp,
    /// Whether the handlers of all processes are known, and not only those of this one.
    pub all_handlers_known: bool,
}

impl fmt::Display for UnhandledMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queue, topic, due_at, all_handlers_known } = self;
        write!(f, "the queue {queue:?} holds a message ")?;
        if let Some(topic) = topic {
            write!(f, "of the topic {topic:?} ")?;
        }
        write!(f, "that is due since {due_at}, and ")?;
        f.write_str(if *all_handlers_known {
            "no known process handles its topic"
        } else {
            "this process has no handler for its topic and no other process has handled the topic recently"
        })
    }
}

/// The findings of a health check.
#[derive(Clone, Debug)]
pub struct Findings {
    /// Duration of a cheap call to the storage, or its error.
    pub storage: Result<Duration, String>,
    /// Number of messages whose lease or whose owner's heartbeat has expired.
    pub stale: u64,
    /// Number of dead letters.
    pub dead: u64,
    /// Number of pending messages, due now or later.
    pub pending: u64,
    /// Number of jobs whose next occurrence is overdue by more than their misfire threshold.
    pub late: u64,
    /// Problems of the configuration, one sentence each.
    pub misconfigured: Vec<String>,
    /// Queues whose oldest due message is late by more than a minute, while none of their messages is
    /// handled and this process does not work on them.
    pub unserved: Vec<String>,
    /// Messages that are late by a minute or more and without a handler in any known process; at
    /// most one of each queue.
    pub unhandled: Vec<UnhandledMessage>,
    /// Whether the process runs, is stopping, or has stopped.
    pub lifecycle: Lifecycle,
    /// The last turn of each service, by its name.
    pub services: BTreeMap<String, LastTurn>,
    /// Interval at which the process polls its storage.
    pub poll_interval: Duration,
}

/// Health of a process and its reasons. As JSON it has stable keys, with durations in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Health {
    /// Condition of the process.
    pub condition: Condition,
    /// Reasons why it is not healthy, one sentence each.
    pub reasons: Vec<String>,
    /// Whether it runs, is stopping, or has stopped; unhealthy unless it runs.
    pub lifecycle: Lifecycle,
    /// Number of messages whose lease or whose owner's heartbeat has expired.
    #[serde(rename = "stale_count")]
    pub stale: u64,
    /// Duration of a cheap call to the storage; `None` when it failed.
    #[serde(rename = "storage_latency_ms", serialize_with = "milliseconds")]
    pub storage_latency: Option<Duration>,
    /// Time since the last successful turn of the services; `None` when there was none.
    #[serde(rename = "last_tick_age_ms", serialize_with = "milliseconds")]
    pub last_tick_age: Option<Duration>,
    /// Number of jobs whose next occurrence is overdue by more than their misfire threshold.
    pub late_schedules: u64,
    /// Number of dead letters.
    #[serde(rename = "dead_letters")]
    pub dead: u64,
    /// Number of pending messages, due now or later.
    pub queue_depth: u64,
}

#[expect(clippy::ref_option, reason = "the signature that serde requires")]
fn milliseconds<S: Serializer>(duration: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    duration.map(|duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)).serialize(to)
}

impl Health {
    /// Derives the health from the findings of a check.
    pub fn evaluate(findings: &Findings, now: Timestamp) -> Self {
        let mut reasons = Vec::new();
        let mut condition = Condition::Healthy;
        let mut report = |worse: Condition, reason: String| {
            condition = condition.max(worse);
            reasons.push(reason);
        };
        if let Err(error) = &findings.storage {
            report(Condition::Unhealthy, format!("the storage does not respond: {error}"));
        }
        let ticked_at = findings.services.get(TICKING).and_then(|last| last.succeeded_at);
        let last_tick_age = ticked_at.map(|ticked_at| between(ticked_at, now));
        if let Some(reason) = standstill(findings, last_tick_age) {
            report(Condition::Unhealthy, reason);
        }
        for (service, last) in &findings.services {
            if let Some(error) = &last.error {
                report(Condition::Degraded, format!("the {service} fails: {error}"));
            }
        }
        if findings.stale > 0 {
            let stale = findings.stale;
            let messages = if stale == 1 { "message belongs" } else { "messages belong" };
            report(Condition::Degraded, format!("{stale} {messages} to a process that has ended"));
        }
        if findings.late > 0 {
            let late = findings.late;
            let jobs = if late == 1 {
                "job is late; no process fires it"
            } else {
                "jobs are late; no process fires them"
            };
            report(Condition::Degraded, format!("{late} {jobs}"));
        }
        for problem in &findings.misconfigured {
            report(Condition::Degraded, problem.clone());
        }
        for queue in &findings.unserved {
            report(
                Condition::Degraded,
                format!("the queue {queue:?} has due messages and no process works on it"),
            );
        }
        for message in &findings.unhandled {
            report(Condition::Degraded, message.to_string());
        }
        let storage_latency = findings.storage.as_ref().ok().copied();
        Self {
            condition,
            reasons,
            lifecycle: findings.lifecycle,
            stale: findings.stale,
            storage_latency,
            last_tick_age,
            late_schedules: findings.late,
            dead: findings.dead,
            queue_depth: findings.pending,
        }
    }
}

/// Returns why the services of a process do no work; `None` when they work.
fn standstill(findings: &Findings, last_tick_age: Option<Duration>) -> Option<String> {
    let age_max = (findings.poll_interval * TICKS_MISSED_MAX).max(STANDSTILL_MIN);
    match (findings.lifecycle, last_tick_age) {
        (Lifecycle::Stopping, _) => Some("the process is stopping".to_owned()),
        (Lifecycle::Stopped, _) => Some("the process has stopped".to_owned()),
        (Lifecycle::Running, None) => Some("the services have not begun to work".to_owned()),
        (Lifecycle::Running, Some(age)) if age > age_max => {
            Some(format!("the services have made no progress for {} s", age.as_secs()))
        }
        (Lifecycle::Running, Some(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn healthy_findings() -> Findings {
        let turn = LastTurn { succeeded_at: Some(at(99)), error: None };
        Findings {
            storage: Ok(Duration::from_millis(3)),
            stale: 0,
            dead: 4,
            pending: 7,
            late: 0,
            misconfigured: Vec::new(),
            unserved: Vec::new(),
            unhandled: Vec::new(),
            lifecycle: Lifecycle::Running,
            services: BTreeMap::from([(TICKING.to_owned(), turn)]),
            poll_interval: Duration::from_secs(1),
        }
    }

    // spec: H-47, H-50
    #[test]
    fn a_process_that_ticks_on_a_reachable_storage_is_healthy() {
        let health = Health::evaluate(&healthy_findings(), at(100));
        assert_eq!((health.condition, health.reasons.len()), (Condition::Healthy, 0));
        assert_eq!((health.stale, health.dead), (0, 4));
        assert_eq!(health.storage_latency, Some(Duration::from_millis(3)));
        assert_eq!(health.last_tick_age, Some(Duration::from_secs(1)));
    }

    // spec: H-48
    #[test]
    fn stale_messages_degrade_the_health() {
        let health = Health::evaluate(&Findings { stale: 2, ..healthy_findings() }, at(100));
        assert_eq!(health.condition, Condition::Degraded);
        assert_eq!(health.reasons, ["2 messages belong to a process that has ended"]);
    }

    // trap 16
    // spec: H-55
    #[test]
    fn late_schedules_and_a_wrong_configuration_degrade_the_health() {
        let health = Health::evaluate(&Findings { late: 3, ..healthy_findings() }, at(100));
        assert_eq!(health.condition, Condition::Degraded);
        assert!(health.reasons[0].contains("3 jobs are late"), "{:?}", health.reasons);
        let health = Health::evaluate(&Findings { late: 1, ..healthy_findings() }, at(100));
        assert_eq!(health.reasons, ["1 job is late; no process fires it"]);
        let misconfigured = vec!["the cron text \"x\" of job \"nightly\" is wrong".to_owned()];
        let health = Health::evaluate(&Findings { misconfigured, ..healthy_findings() }, at(100));
        assert_eq!(health.condition, Condition::Degraded);
        assert!(health.reasons[0].contains("nightly"), "{:?}", health.reasons);
    }

    // Decision 3.44.
    #[test]
    fn a_stopping_process_is_unhealthy_immediately() {
        for (lifecycle, reason) in [
            (Lifecycle::Stopping, "the process is stopping"),
            (Lifecycle::Stopped, "the process has stopped"),
        ] {
            let health = Health::evaluate(&Findings { lifecycle, ..healthy_findings() }, at(100));
            assert_eq!((health.condition, health.lifecycle), (Condition::Unhealthy, lifecycle));
            assert_eq!(health.reasons, [reason]);
        }
    }

    // Decision 3.18: the JSON keys are fixed.
    // spec: H-50
    #[test]
    fn the_json_keys_are_stable() {
        let health = Health::evaluate(&Findings { stale: 1, ..healthy_findings() }, at(100));
        let expected = serde_json::json!({
            "condition": "degraded",
            "reasons": ["1 message belongs to a process that has ended"],
            "lifecycle": "running",
            "stale_count": 1,
            "storage_latency_ms": 3,
            "last_tick_age_ms": 1_000,
            "late_schedules": 0,
            "dead_letters": 4,
            "queue_depth": 7,
        });
        assert_eq!(serde_json::to_value(health).unwrap(), expected);
        let down = Findings { storage: Err("gone".to_owned()), ..healthy_findings() };
        let down = serde_json::to_value(Health::evaluate(&down, at(100))).unwrap();
        assert!(down["storage_latency_ms"].is_null());
    }

    // spec: H-49
    #[test]
    fn a_process_without_a_storage_or_without_ticks_is_unhealthy() {
        let storage = Err("connection refused".to_owned());
        let health = Health::evaluate(&Findings { storage, ..healthy_findings() }, at(100));
        assert_eq!((health.condition, health.storage_latency), (Condition::Unhealthy, None));
        assert!(health.reasons[0].contains("connection refused"));
        assert_eq!(Health::evaluate(&healthy_findings(), at(129)).condition, Condition::Healthy);
        assert_eq!(Health::evaluate(&healthy_findings(), at(130)).condition, Condition::Unhealthy);
        let never = Findings { services: BTreeMap::new(), ..healthy_findings() };
        assert_eq!(Health::evaluate(&never, at(100)).condition, Condition::Unhealthy);
    }
}
