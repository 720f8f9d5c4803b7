//! How a process is: what it found when it looked, and what follows from it. Looking changes nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use crate::clock::between;
pub use crate::engine::LastTurn;

/// A process whose loops have stood still for this many poll intervals is not running.
const TICKS_MISSED_MAX: u32 = 10;
/// But never sooner than this.
const STANDSTILL_MIN: Duration = Duration::from_secs(30);
/// The service that has a turn at every poll interval, whatever there is to do.
const TICKING: &str = "lookout";

/// How a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// Everything works.
    Healthy,
    /// It works, but somebody should look.
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

/// What was found.
#[derive(Clone, Debug)]
pub struct Findings {
    /// How long a light question to the storage took, or why it could not be answered.
    pub storage: Result<Duration, String>,
    /// Messages whose lease has run out.
    pub stale: u64,
    /// Dead letters.
    pub dead: u64,
    /// The last turn of each service.
    pub services: BTreeMap<String, LastTurn>,
    /// How often the process looks at its storage.
    pub poll_interval: Duration,
}

/// How a process is, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Health {
    /// In one word.
    pub condition: Condition,
    /// What speaks against healthy, a sentence each.
    pub reasons: Vec<String>,
    /// How long a light question to the storage took; none when it was not answered.
    pub storage_latency: Option<Duration>,
    /// Messages whose lease has run out.
    pub stale: u64,
    /// Dead letters.
    pub dead: u64,
    /// How long ago the loops last had a turn that went well; none when they never had.
    pub last_tick_age: Option<Duration>,
}

impl Health {
    /// What follows from what was found.
    pub fn judge(findings: &Findings, now: Timestamp) -> Self {
        let mut reasons = Vec::new();
        let mut condition = Condition::Healthy;
        let mut say = |worse: Condition, reason: String| {
            condition = condition.max(worse);
            reasons.push(reason);
        };
        if let Err(error) = &findings.storage {
            say(Condition::Unhealthy, format!("the storage does not answer: {error}"));
        }
        let ticked_at = findings.services.get(TICKING).and_then(|last| last.succeeded_at);
        let last_tick_age = ticked_at.map(|ticked_at| between(ticked_at, now));
        let standstill = (findings.poll_interval * TICKS_MISSED_MAX).max(STANDSTILL_MIN);
        match last_tick_age {
            None => say(Condition::Unhealthy, "the services have not begun to work".to_owned()),
            Some(age) if age > standstill => say(
                Condition::Unhealthy,
                format!("the services have stood still for {} s", age.as_secs()),
            ),
            Some(_) => {}
        }
        for (service, last) in &findings.services {
            if let Some(error) = &last.error {
                say(Condition::Degraded, format!("the {service} fails: {error}"));
            }
        }
        if findings.stale > 0 {
            let stale = findings.stale;
            say(Condition::Degraded, format!("{stale} messages have an owner that is gone"));
        }
        let storage_latency = findings.storage.as_ref().ok().copied();
        let (stale, dead) = (findings.stale, findings.dead);
        Self { condition, reasons, storage_latency, stale, dead, last_tick_age }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn fine() -> Findings {
        let turn = LastTurn { succeeded_at: Some(at(99)), error: None };
        Findings {
            storage: Ok(Duration::from_millis(3)),
            stale: 0,
            dead: 4,
            services: BTreeMap::from([(TICKING.to_owned(), turn)]),
            poll_interval: Duration::from_secs(1),
        }
    }

    // spec: H-47, H-50
    #[test]
    fn a_process_that_ticks_on_a_storage_that_answers_is_healthy() {
        let health = Health::judge(&fine(), at(100));
        assert_eq!((health.condition, health.reasons.len()), (Condition::Healthy, 0));
        assert_eq!((health.stale, health.dead), (0, 4));
        assert_eq!(health.storage_latency, Some(Duration::from_millis(3)));
        assert_eq!(health.last_tick_age, Some(Duration::from_secs(1)));
    }

    // spec: H-48
    #[test]
    fn stale_messages_degrade_it() {
        let health = Health::judge(&Findings { stale: 2, ..fine() }, at(100));
        assert_eq!(health.condition, Condition::Degraded);
        assert_eq!(health.reasons, ["2 messages have an owner that is gone"]);
    }

    // spec: H-49
    #[test]
    fn without_a_storage_or_without_ticks_it_is_unhealthy() {
        let storage = Err("connection refused".to_owned());
        let health = Health::judge(&Findings { storage, ..fine() }, at(100));
        assert_eq!((health.condition, health.storage_latency), (Condition::Unhealthy, None));
        assert!(health.reasons[0].contains("connection refused"));
        assert_eq!(Health::judge(&fine(), at(129)).condition, Condition::Healthy);
        assert_eq!(Health::judge(&fine(), at(130)).condition, Condition::Unhealthy);
        let never = Findings { services: BTreeMap::new(), ..fine() };
        assert_eq!(Health::judge(&never, at(100)).condition, Condition::Unhealthy);
    }
}
