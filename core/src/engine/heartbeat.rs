//! Heartbeat: the service that follows the storage's clock, records that this process is alive, renews every
//! lease at a third of its duration, and determines from the results which handlers have to stop.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::sync::watch;

use super::in_flight::InFlightLease;
use super::{Process, Service, Turn};
use crate::error::Result;
use crate::event::Event;
use crate::handler::CancelCause;
use crate::model::LeaseRef;
use crate::model::time::{add, subtract};
use crate::storage::{ExtendResult, Storage, WakeSource, Wakeup};

/// Number of missed heartbeats after which a process counts as gone.
pub(crate) const HEARTBEATS_MISSED: u32 = 3;
/// Smallest clock correction that is reported as an event.
const DRIFT_NOTED: Duration = Duration::from_secs(1);
/// Longest pause after failures; a handler whose lease runs out meanwhile has to be stopped.
pub(crate) const HEARTBEAT_PAUSE_MAX: Duration = Duration::from_secs(1);
/// Largest number of leases in one renewal.
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

/// Service that sends the heartbeats of a process and renews its leases.
pub(crate) struct HeartbeatService {
    process: Arc<Process>,
    /// When the next turn is due; an earlier turn was woken by a request to cancel.
    planned: Option<Timestamp>,
}

impl HeartbeatService {
    pub(crate) fn new(process: Arc<Process>) -> Self {
        Self { process, planned: None }
    }

    /// Returns the interval of heartbeats: never longer than a third of a lease.
    fn interval(&self) -> Duration {
        self.process.env.options.heartbeat_interval.min(self.process.env.options.lease_duration / 3)
    }

    /// Returns the wakeups for requests to cancel a running message.
    pub(crate) fn wakeups(&self) -> Vec<Wakeup> {
        self.process.storages.iter().map(|storage| storage.wakeup(&WakeSource::Leases)).collect()
    }

    /// Renews leases that are a third through their duration, or all of them to determine which handlers have to
    /// stop. A storage that fails does not affect the leases of another.
    async fn renew(&self, everything: bool, now: Timestamp) -> Result<()> {
        let renew_before = add(now, self.process.env.options.lease_duration * 2 / 3);
        let mut leases = self.process.runner.in_flight.leases();
        leases.retain(|in_flight| {
            everything || in_flight.until.is_none_or(|until| until <= renew_before)
        });
        let mut outcome = Ok(());
        for storage in &self.process.storages {
            let (own, others): (Vec<_>, Vec<_>) = leases
                .into_iter()
                .partition(|in_flight| Arc::ptr_eq(&in_flight.lease.storage, storage));
            leases = others;
            outcome = outcome.and(self.renew_on(&**storage, &own, now).await);
        }
        outcome
    }

    /// Renews the leases of one storage and cancels the handlers whose lease is lost or cancelled.
    async fn renew_on(
        &self,
        storage: &dyn Storage,
        leases: &[InFlightLease],
        now: Timestamp,
    ) -> Result<()> {
        let until = add(now, self.process.env.options.lease_duration);
        for some in leases.chunks(RENEW_MAX) {
            let refs: Vec<LeaseRef> =
                some.iter().map(|in_flight| in_flight.lease.lease_ref).collect();
            let results = storage.extend(&refs, until, now).await?;
            for (in_flight, result) in some.iter().zip(results) {
                let cancellation = &in_flight.context.parts().cancellation;
                match result {
                    ExtendResult::Held => in_flight.context.set_lease_until(until),
                    ExtendResult::CancelRequested => {
                        in_flight.context.set_lease_until(until);
                        cancellation.cancel(CancelCause::Cancelled);
                    }
                    ExtendResult::Lost => {
                        cancellation.cancel(CancelCause::LeaseLost);
                    }
                }
            }
        }
        Ok(())
    }

    /// Cancels handlers whose lease ran out without a renewal: another process may have the message.
    fn drop_expired(&self, now: Timestamp) {
        for in_flight in self.process.runner.in_flight.leases() {
            if in_flight.until.is_some_and(|until| now > until) {
                in_flight.context.parts().cancellation.cancel(CancelCause::LeaseLost);
            }
        }
    }
}

#[async_trait]
impl Service for HeartbeatService {
    fn name(&self) -> &'static str {
        "heartbeat"
    }

    async fn turn(&mut self, now: Timestamp) -> Result<Turn> {
        // A turn before its time was requested by a notification.
        let woken = self.planned.take().is_some_and(|planned| now < planned);
        let before = self.process.env.clock.ahead();
        let followed = self.process.env.clock.follow(&*self.process.env.storage).await;
        let Ok(now) = followed else {
            self.drop_expired(now);
            return followed.map(|_| Turn::WhenWoken);
        };
        let ahead = self.process.env.clock.ahead();
        if (ahead - before).unsigned_abs() > DRIFT_NOTED {
            let ahead_ms = i64::try_from(ahead.as_millis()).unwrap_or(i64::MAX);
            self.process.env.events.emit(Event::ClockCorrected { ahead_ms });
        }
        self.drop_expired(now);
        heartbeat(&self.process, now).await?;
        self.renew(woken, now).await?;
        let next = add(now, self.interval());
        self.planned = Some(next);
        Ok(Turn::At(next))
    }
}

/// Makes sure that this process counts as alive before it claims: messages of a process whose heartbeat has
/// expired, as after an outage of the storage, are freed at once.
///
/// Returns the instant to act at. A heartbeat that has expired by the local clock, or none so far, may also
/// mean that this clock is wrong: after a start, or when it was set forward. So the storage's time is read
/// before anything is claimed or fired.
pub(crate) async fn ensure_alive(process: &Process, now: Timestamp) -> Result<Timestamp> {
    let until = *process.alive_until.borrow();
    if now <= until {
        return Ok(now);
    }
    let now = process.env.clock.follow(&*process.env.storage).await?;
    heartbeat(process, now).await?;
    Ok(now)
}

async fn heartbeat(process: &Process, now: Timestamp) -> Result<()> {
    let until = add(now, process.env.options.heartbeat_interval * HEARTBEATS_MISSED);
    for storage in &process.storages {
        storage.heartbeat(process.env.id, until, now).await?;
    }
    process.alive_until.send_replace(until);
    Ok(())
}

/// Deregisters this process: messages it still holds are freed at once.
pub(crate) async fn deregister(process: &Process) -> Result<()> {
    let now = process.now();
    let past = subtract(now, Duration::from_nanos(1));
    for storage in &process.storages {
        storage.heartbeat(process.env.id, past, now).await?;
    }
    Ok(())
}
