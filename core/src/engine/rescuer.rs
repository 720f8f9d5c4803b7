//! Rescuer: messages whose process is gone become pending again, or dead. Leases are compared with the
//! storage's own time, never with the local clock, so that a machine with a wrong clock frees nothing too
//! early.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::dead_message::DeadMessage;
use super::{HEARTBEATS_MISSED, Process, Service, Turn, ensure_alive};
use crate::error::Result;
use crate::event::Event;
use crate::model::time::{add, next_tick};
use crate::model::{Execution, Recording};
use crate::options::Options;
use crate::policy::{AttemptDecision, AttemptFacts, Verdict, rescue};
use crate::sending::follow_ups;
use crate::storage::{ClaimedMessage, Reclaim, SettleResult, Settlement, Storage};

/// Lease of the rescuer on messages while it decides about them.
const DECISION_LEASE: Duration = Duration::from_secs(60);
/// Shortest pause between two turns, also when something has expired that cannot be freed.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Shortest duration that every storage can represent.
const TIME_RESOLUTION: Duration = Duration::from_micros(1);

/// Service that frees messages whose owner is gone.
pub(crate) struct Rescuer {
    process: Arc<Process>,
    storage: Arc<dyn Storage>,
}

/// The verdict on a message, and the execution of its lost attempt.
struct LostAttempt {
    verdict: Verdict,
    execution: Arc<Execution>,
}

impl Rescuer {
    pub(crate) fn new(process: Arc<Process>, storage: Arc<dyn Storage>) -> Self {
        Self { process, storage }
    }

    fn settlement(&self, claimed: &ClaimedMessage, now: Timestamp) -> (Settlement, LostAttempt) {
        let handler_options = self.process.handler_options(&claimed.message);
        let decision = rescue(&AttemptFacts {
            message: &claimed.message,
            attempt: claimed.attempt,
            crashes: claimed.crashes,
            snoozes: claimed.snoozes,
            handler_options: &handler_options,
            cancel_requested: claimed.cancel_requested,
            now,
        });
        let recorded = handler_options.recording != Recording::None;
        let attempts_max = handler_options.retry.attempts_max;
        let execution = Arc::new(self.execution(claimed, attempts_max, &decision, now));
        let then =
            follow_ups(&self.process.env, &claimed.message, &decision.verdict, &execution, None);
        let written = recorded.then(|| execution.clone());
        let settlement = Settlement {
            then,
            ..Settlement::new(claimed.lease_ref(), decision.verdict.clone(), written)
        };
        (settlement, LostAttempt { verdict: decision.verdict, execution })
    }

    /// Emits the loss of the attempt, and reports a message that became dead.
    fn report(&self, claimed: &ClaimedMessage, lost: LostAttempt) {
        let LostAttempt { verdict, execution } = lost;
        self.process.env.events.emit(Event::AttemptLost {
            message: claimed.message.id,
            execution: execution.id,
            topic: execution.topic.clone(),
            job: execution.job.clone(),
            nominal: execution.nominal,
            attempt: execution.attempt,
            again_at: verdict.again_at(),
        });
        if let Verdict::Dead { reason, error } = verdict {
            let (message, attempts) = (&*claimed.message, claimed.attempt);
            let dead = DeadMessage { message, attempts, reason, error, log: None };
            self.process.report_dead_message(dead);
        }
    }

    fn execution(
        &self,
        claimed: &ClaimedMessage,
        attempts_max: Option<u32>,
        decision: &AttemptDecision,
        now: Timestamp,
    ) -> Execution {
        let message = &claimed.message;
        Execution {
            id: self.process.env.execution_id(now),
            message: Some(message.id),
            topic: message.topic.clone(),
            queue: message.queue.clone(),
            key: message.key.clone(),
            job: message.occurrence.as_ref().map(|occurrence| occurrence.job.clone()),
            nominal: message.occurrence.as_ref().map(|occurrence| occurrence.nominal),
            source: message.source,
            attempt: claimed.attempt,
            attempts_max,
            process: None,
            due_at: claimed.due_at,
            started_at: claimed.due_at,
            ended_at: now,
            ending: decision.ending,
            note: decision.note.clone(),
            log: None,
        }
    }
}

/// Returns the time of the next search: as soon as a lease or a heartbeat may have expired, at the next tick of the
/// rescue interval, or when a process that claims right after this turn and ends could be forgotten,
/// whichever comes first. Never sooner than a second, also when something has expired already.
fn next_turn(options: &Options, expiry: Option<Timestamp>, now: Timestamp) -> Timestamp {
    let forgotten_after = options.heartbeat_interval * HEARTBEATS_MISSED;
    let latest = next_tick(now, options.rescue_interval.min(forgotten_after));
    // Exactly at its end a heartbeat is still valid.
    let expired = expiry.map(|expiry| add(expiry, TIME_RESOLUTION));
    let earliest = add(now, PAUSE_MIN).min(latest);
    expired.map_or(latest, |expired| expired.clamp(earliest, latest))
}

#[async_trait]
impl Service for Rescuer {
    fn name(&self) -> &'static str {
        "rescuer"
    }

    async fn turn(&mut self, _now: Timestamp) -> Result<Turn> {
        let storage = &self.storage;
        let now = storage.time().await?;
        let limit = self.process.env.options.batch_max;
        let reclaim =
            Reclaim { owner: self.process.env.id, limit, until: add(now, DECISION_LEASE) };
        ensure_alive(&self.process, now).await?;
        let claimed = storage.reclaim(reclaim, now).await?;
        let more = claimed.len() == limit;
        if !claimed.is_empty() {
            let (settlements, lost): (Vec<_>, Vec<_>) =
                claimed.iter().map(|claimed| self.settlement(claimed, now)).unzip();
            let results = storage.settle(settlements, now).await?;
            let applied = results.iter().filter(|result| **result == SettleResult::Applied).count();
            if applied > 0 {
                self.process.env.events.emit(Event::LeasesRescued { count: applied as u64 });
            }
            let of_messages = claimed.iter().zip(lost).zip(&results);
            for ((claimed, lost), _) in
                of_messages.filter(|(_, result)| **result == SettleResult::Applied)
            {
                self.report(claimed, lost);
            }
        }
        if more {
            return Ok(Turn::Again);
        }
        let expiry = storage.next_expiry().await?;
        // By the local clock, which the service loop sleeps by.
        Ok(Turn::At(next_turn(&self.process.env.options, expiry, self.process.now())))
    }
}
