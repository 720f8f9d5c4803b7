//! The rescuer: messages whose process is gone become pending again, or dead. Leases are judged by
//! the storage's own time, never by ours, so that a node with a wrong clock frees nothing too early.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::given_up::GivenUp;
use super::{HEARTBEATS_MISSED, Options, Process, Service, Turn, alive, follow};
use crate::clock::{add, next_tick};
use crate::error::Result;
use crate::event::Event;
use crate::model::{Execution, Recording};
use crate::policy::{AttemptDecision, AttemptFacts, Verdict, rescue};
use crate::storage::{ClaimedMessage, Reclaim, SettleResult, Settlement, Storage};

/// How long the rescuer keeps what it took over while it decides.
const DECIDING: Duration = Duration::from_secs(60);
/// The shortest rest between two looks, also when something has expired that cannot be freed.
const REST_MIN: Duration = Duration::from_secs(1);
/// The shortest span that every storage tells apart.
const INSTANT: Duration = Duration::from_micros(1);

/// Frees messages whose owner is gone.
pub(crate) struct Rescuer {
    process: Arc<Process>,
    storage: Arc<dyn Storage>,
}

/// What was decided about a message, and the attempt that was lost.
struct Decided {
    verdict: Verdict,
    execution: Arc<Execution>,
}

impl Rescuer {
    pub(crate) fn new(process: Arc<Process>, storage: Arc<dyn Storage>) -> Self {
        Self { process, storage }
    }

    fn settlement(&self, claimed: &ClaimedMessage, now: Timestamp) -> (Settlement, Decided) {
        let handler_options = self.process.handler_options(&claimed.message);
        let judged = rescue(&AttemptFacts {
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
        let execution = Arc::new(self.execution(claimed, attempts_max, &judged, now));
        let then = follow(&self.process, &claimed.message, &judged.verdict, &execution, None);
        let written = recorded.then(|| execution.clone());
        let settlement = Settlement {
            then,
            ..Settlement::new(claimed.lease_ref(), judged.verdict.clone(), written)
        };
        (settlement, Decided { verdict: judged.verdict, execution })
    }

    /// Tells what became of a message.
    fn tell(&self, claimed: &ClaimedMessage, decided: Decided) {
        let Decided { verdict, execution } = decided;
        self.process.events.emit(Event::AttemptLost {
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
            let given_up = GivenUp { message, attempts, reason, error, log: None };
            self.process.tell_given_up(given_up);
        }
    }

    fn execution(
        &self,
        claimed: &ClaimedMessage,
        attempts_max: Option<u32>,
        judged: &AttemptDecision,
        now: Timestamp,
    ) -> Execution {
        let message = &claimed.message;
        Execution {
            id: self.process.execution_id(now),
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
            ending: judged.ending,
            note: judged.note.clone(),
            log: None,
        }
    }
}

/// Returns when to look again: as soon as a lease or a heartbeat may have expired, at the next tick of the
/// rescue interval, or when a process that claims right after this turn and ends could be forgotten,
/// whichever comes first. Never sooner than a second, also when something has expired already.
fn next_turn(options: &Options, expiry: Option<Timestamp>, now: Timestamp) -> Timestamp {
    let forgotten_after = options.heartbeat_interval * HEARTBEATS_MISSED;
    let latest = next_tick(now, options.rescue_interval.min(forgotten_after));
    // Exactly at its end a heartbeat still holds.
    let expired = expiry.map(|expiry| add(expiry, INSTANT));
    let earliest = add(now, REST_MIN).min(latest);
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
        let limit = self.process.options.batch;
        let reclaim = Reclaim { owner: self.process.id, limit, until: add(now, DECIDING) };
        alive(&self.process, now).await?;
        let claimed = storage.reclaim(reclaim, now).await?;
        let more = claimed.len() == limit;
        if !claimed.is_empty() {
            let (settlements, decided): (Vec<_>, Vec<_>) =
                claimed.iter().map(|claimed| self.settlement(claimed, now)).unzip();
            let answers = storage.settle(settlements, now).await?;
            let applied = answers.iter().filter(|answer| **answer == SettleResult::Applied).count();
            if applied > 0 {
                self.process.events.emit(Event::LeasesRescued { count: applied as u64 });
            }
            let of_messages = claimed.iter().zip(decided).zip(&answers);
            for ((claimed, decided), _) in
                of_messages.filter(|(_, answer)| **answer == SettleResult::Applied)
            {
                self.tell(claimed, decided);
            }
        }
        if more {
            return Ok(Turn::Again);
        }
        let expiry = storage.next_expiry().await?;
        // Paced by our clock, which is the one the loop sleeps by.
        Ok(Turn::At(next_turn(&self.process.options, expiry, self.process.now())))
    }
}
