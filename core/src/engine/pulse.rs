//! The pulse of a process: follow the storage's clock, say that we are alive, renew every lease at a
//! third of its length, and learn from the answers which handlers have to stop.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::{Process, Service, Turn};
use crate::clock::{add, subtract};
use crate::error::Result;
use crate::event::Event;
use crate::handler::Cause;
use crate::model::LeaseRef;
use crate::storage::{BEAT_INTERVAL, BEAT_LENGTH, Extended};

/// A correction beyond this is worth a warning.
const DRIFT_NOTED: Duration = Duration::from_secs(1);
/// The most leases in one renewal.
const RENEW_MAX: usize = 1_000;

/// Keeps a process alive in the eyes of the others.
pub(crate) struct Pulse {
    process: Arc<Process>,
}

impl Pulse {
    pub(crate) fn new(process: Arc<Process>) -> Self {
        Self { process }
    }

    /// How often the pulse beats.
    fn interval(&self) -> Duration {
        BEAT_INTERVAL.min(self.process.options.lease_length / 3)
    }

    async fn renew(&self, leases: &[LeaseRef], now: Timestamp) -> Result<()> {
        let until = add(now, self.process.options.lease_length);
        for some in leases.chunks(RENEW_MAX) {
            let answers = self.process.storage.extend(some, until, now).await?;
            for (lease, answer) in some.iter().zip(answers) {
                match answer {
                    Extended::Held => self.process.in_flight.renewed(*lease, until),
                    Extended::CancelRequested => {
                        self.process.in_flight.renewed(*lease, until);
                        self.process.in_flight.cancel(*lease, Cause::Cancelled);
                    }
                    Extended::Lost => {
                        self.process.in_flight.cancel(*lease, Cause::LeaseLost);
                    }
                }
            }
        }
        Ok(())
    }

    /// Without an answer for a whole lease somebody else may have the message: stop the handlers.
    fn drop_expired(&self, now: Timestamp) {
        for (lease, until) in self.process.in_flight.leases() {
            if until.is_some_and(|until| now > until) {
                self.process.in_flight.cancel(lease, Cause::LeaseLost);
            }
        }
    }
}

#[async_trait]
impl Service for Pulse {
    fn name(&self) -> &'static str {
        "pulse"
    }

    async fn turn(&mut self, now: Timestamp) -> Result<Turn> {
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
        beat(&self.process, now).await?;
        // Renewed at a third: what has less than two thirds of its length left.
        let renew_before = add(now, self.process.options.lease_length * 2 / 3);
        let leases: Vec<LeaseRef> = self
            .process
            .in_flight
            .leases()
            .into_iter()
            .filter(|(_, until)| until.is_none_or(|until| until <= renew_before))
            .map(|(lease, _)| lease)
            .collect();
        self.renew(&leases, now).await?;
        Ok(Turn::At(add(now, self.interval())))
    }
}

/// Sees to it that this process counts as alive before it claims: whatever a process holds whose beats
/// have run out, as after an outage of the storage, is taken away from it at once.
pub(crate) async fn alive(process: &Process, now: Timestamp) -> Result<()> {
    let until = *process.alive_until.lock().unwrap_or_else(PoisonError::into_inner);
    if now > until { beat(process, now).await } else { Ok(()) }
}

async fn beat(process: &Process, now: Timestamp) -> Result<()> {
    let until = add(now, BEAT_LENGTH);
    process.storage.beat(process.id, until, now).await?;
    *process.alive_until.lock().unwrap_or_else(PoisonError::into_inner) = until;
    Ok(())
}

/// Says goodbye: what this process still holds is free at once.
pub(crate) async fn goodbye(process: &Process) -> Result<()> {
    let now = process.now();
    process.storage.beat(process.id, subtract(now, Duration::from_nanos(1)), now).await
}
