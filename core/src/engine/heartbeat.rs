//! The pulse of a process: follow the storage's clock, say that we are alive, renew every lease at a
//! third of its length, and learn from the answers which handlers have to stop.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::sync::watch;

use super::in_flight::InHandLease;
use super::{Process, Service, Turn};
use crate::clock::{add, subtract};
use crate::error::Result;
use crate::event::Event;
use crate::handler::Cause;
use crate::model::LeaseRef;
use crate::storage::{ExtendResult, Storage, WakeSource, Wakeup};

/// After so many missed beats a process is believed gone.
pub const HEARTBEATS_MISSED: u32 = 3;
/// A correction beyond this is worth a warning.
const DRIFT_NOTED: Duration = Duration::from_secs(1);
/// The longest rest after failures: a handler whose lease runs out meanwhile has to be stopped.
pub(crate) const PULSE_REST_MAX: Duration = Duration::from_secs(1);
/// The most leases in one renewal.
const RENEW_MAX: usize = 1_000;

/// Follows the heartbeats of a process.
#[derive(Clone, Debug)]
pub struct Heartbeats {
    alive_until: watch::Receiver<Timestamp>,
}

impl Heartbeats {
    pub(crate) fn of(process: &Process) -> Self {
        Self { alive_until: process.alive_until.subscribe() }
    }

    /// Returns when the last heartbeat expires: strictly after it other processes take over what this one
    /// runs. Far in the past before the first heartbeat.
    pub fn alive_until(&self) -> Timestamp {
        *self.alive_until.borrow()
    }

    /// Waits for the next heartbeat; for ever when the process is gone. Cancel-safe.
    pub async fn next(&mut self) {
        if self.alive_until.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Keeps a process alive in the eyes of the others.
pub(crate) struct HeartbeatService {
    process: Arc<Process>,
    planned: Option<Timestamp>,
}

impl HeartbeatService {
    pub(crate) fn new(process: Arc<Process>) -> Self {
        Self { process, planned: None }
    }

    /// How often the pulse beats.
    fn interval(&self) -> Duration {
        self.process.options.heartbeat_interval.min(self.process.options.lease_duration / 3)
    }

    /// What it listens to: requests to cancel what is running.
    pub(crate) fn wakeups(&self) -> Vec<Wakeup> {
        self.process.storages.iter().map(|storage| storage.wakeup(&WakeSource::Leases)).collect()
    }

    /// Renews what is a third through its length, or everything to learn what has to stop; one storage
    /// that fails does not keep the leases of another from it.
    async fn renew(&self, everything: bool, now: Timestamp) -> Result<()> {
        let renew_before = add(now, self.process.options.lease_duration * 2 / 3);
        let mut leases = self.process.in_flight.leases();
        leases.retain(|in_hand| {
            everything || in_hand.until.is_none_or(|until| until <= renew_before)
        });
        let mut outcome = Ok(());
        for storage in &self.process.storages {
            let (own, others): (Vec<_>, Vec<_>) =
                leases.into_iter().partition(|in_hand| Arc::ptr_eq(&in_hand.held.storage, storage));
            leases = others;
            outcome = outcome.and(self.renew_on(&**storage, &own, now).await);
        }
        outcome
    }

    /// Renews what belongs to one storage and listens to its answers.
    async fn renew_on(
        &self,
        storage: &dyn Storage,
        leases: &[InHandLease],
        now: Timestamp,
    ) -> Result<()> {
        let until = add(now, self.process.options.lease_duration);
        for some in leases.chunks(RENEW_MAX) {
            let refs: Vec<LeaseRef> = some.iter().map(|in_hand| in_hand.held.lease).collect();
            let answers = storage.extend(&refs, until, now).await?;
            for (in_hand, answer) in some.iter().zip(answers) {
                let cancellation = &in_hand.context.parts().cancellation;
                match answer {
                    ExtendResult::Held => in_hand.context.renewed(until),
                    ExtendResult::CancelRequested => {
                        in_hand.context.renewed(until);
                        cancellation.cancel(Cause::Cancelled);
                    }
                    ExtendResult::Lost => {
                        cancellation.cancel(Cause::LeaseLost);
                    }
                }
            }
        }
        Ok(())
    }

    /// Without an answer for a whole lease somebody else may have the message: stop the handlers.
    fn drop_expired(&self, now: Timestamp) {
        for in_hand in self.process.in_flight.leases() {
            if in_hand.until.is_some_and(|until| now > until) {
                in_hand.context.parts().cancellation.cancel(Cause::LeaseLost);
            }
        }
    }
}

#[async_trait]
impl Service for HeartbeatService {
    fn name(&self) -> &'static str {
        "pulse"
    }

    async fn turn(&mut self, now: Timestamp) -> Result<Turn> {
        // Before its time only when somebody rang.
        let woken = self.planned.take().is_some_and(|planned| now < planned);
        let before = self.process.clock.ahead();
        let followed = self.process.clock.follow(&*self.process.storage).await;
        let Ok(now) = followed else {
            self.drop_expired(now);
            return followed.map(|_| Turn::WhenWoken);
        };
        let ahead = self.process.clock.ahead();
        if (ahead - before).unsigned_abs() > DRIFT_NOTED {
            let ahead_ms = i64::try_from(ahead.as_millis()).unwrap_or(i64::MAX);
            self.process.events.emit(Event::ClockCorrected { ahead_ms });
        }
        self.drop_expired(now);
        heartbeat(&self.process, now).await?;
        self.renew(woken, now).await?;
        let next = add(now, self.interval());
        self.planned = Some(next);
        Ok(Turn::At(next))
    }
}

/// Sees to it that this process counts as alive before it claims: whatever a process holds whose beats
/// have run out, as after an outage of the storage, is taken away from it at once.
///
/// Answers the instant to act at. Beats that have run out by our clock, or none so far, may also mean
/// that the clock is wrong: after a start, or when it was set forward. So the storage is asked for the
/// time before anything is claimed or fired by it.
pub(crate) async fn alive(process: &Process, now: Timestamp) -> Result<Timestamp> {
    let until = *process.alive_until.borrow();
    if now <= until {
        return Ok(now);
    }
    let now = process.clock.follow(&*process.storage).await?;
    heartbeat(process, now).await?;
    Ok(now)
}

async fn heartbeat(process: &Process, now: Timestamp) -> Result<()> {
    let until = add(now, process.options.heartbeat_interval * HEARTBEATS_MISSED);
    for storage in &process.storages {
        storage.heartbeat(process.id, until, now).await?;
    }
    process.alive_until.send_replace(until);
    Ok(())
}

/// Says goodbye: what this process still holds is free at once.
pub(crate) async fn goodbye(process: &Process) -> Result<()> {
    let now = process.now();
    let past = subtract(now, Duration::from_nanos(1));
    for storage in &process.storages {
        storage.heartbeat(process.id, past, now).await?;
    }
    Ok(())
}
