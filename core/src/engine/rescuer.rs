//! The rescuer: messages whose process is gone become pending again, or dead. Leases are judged by
//! the storage's own time, never by ours, so that a node with a wrong clock frees nothing too early.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::given_up::GivenUp;
use super::{Process, Service, Turn, alive, follow};
use crate::clock::{add, next_tick};
use crate::error::Result;
use crate::event::Event;
use crate::model::{Execution, Recording};
use crate::policy::{Case, Judged, Verdict, rescue};
use crate::storage::{Claimed, Reclaim, Settled, Settlement, Storage};

/// How long the rescuer keeps what it took over while it decides.
const DECIDING: Duration = Duration::from_secs(60);

/// Frees messages whose owner is gone.
pub(crate) struct Rescuer {
    process: Arc<Process>,
    storage: Arc<dyn Storage>,
}

impl Rescuer {
    pub(crate) fn new(process: Arc<Process>, storage: Arc<dyn Storage>) -> Self {
        Self { process, storage }
    }

    fn settlement(&self, claimed: &Claimed, now: Timestamp) -> (Settlement, Judged) {
        let terms = self.process.terms(&claimed.message);
        let judged = rescue(&Case {
            message: &claimed.message,
            attempt: claimed.attempt,
            crashes: claimed.crashes,
            snoozes: claimed.snoozes,
            terms: &terms,
            cancel_requested: claimed.cancel_requested,
            now,
        });
        let recorded = terms.recording != Recording::None;
        let attempts_max = terms.retry.attempts_max;
        let execution = Arc::new(self.execution(claimed, attempts_max, &judged, now));
        let then = follow(&self.process, &claimed.message, &judged.verdict, &execution, None);
        let execution = recorded.then_some(execution);
        let settlement = Settlement {
            then,
            ..Settlement::new(claimed.lease_ref(), judged.verdict.clone(), execution)
        };
        (settlement, judged)
    }

    fn execution(
        &self,
        claimed: &Claimed,
        attempts_max: Option<u32>,
        judged: &Judged,
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
            let (settlements, judged): (Vec<_>, Vec<_>) =
                claimed.iter().map(|claimed| self.settlement(claimed, now)).unzip();
            let answers = storage.settle(settlements, now).await?;
            let applied = answers.iter().filter(|answer| **answer == Settled::Applied).count();
            if applied > 0 {
                self.process.events.emit(Event::LeasesRescued { count: applied as u64 });
            }
            for ((claimed, judged), _) in claimed
                .iter()
                .zip(judged)
                .zip(&answers)
                .filter(|(_, answer)| **answer == Settled::Applied)
            {
                if let Verdict::Dead { reason, error } = judged.verdict {
                    let (message, attempts) = (&*claimed.message, claimed.attempt);
                    let given_up = GivenUp { message, attempts, reason, error, log: None };
                    self.process.tell_given_up(given_up);
                }
            }
        }
        // Paced by our clock, which is the one the loop sleeps by.
        let next = next_tick(self.process.now(), self.process.options.rescue_interval);
        Ok(if more { Turn::Again } else { Turn::At(next) })
    }
}
