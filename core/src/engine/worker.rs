//! The worker of a queue: messages into attempts, as many at once as there are slots. It claims only what
//! can start now and has a handler here, and it never waits for a whole batch: each attempt is its own task.
//! What transports deliver is received in `subscription/worker.rs`.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;

use super::attempt::{attempt, context};
use super::in_flight::{Slot, Slots};
use super::rates::{Rates, has_rate};
use super::settle::{Extras, Started};
use super::{Process, Service, Settler, Turn, alive};
use crate::clock::add;
use crate::error::Result;
use crate::event::Event;
use crate::model::{Priority, Queue};
use crate::storage::{Claim, ClaimedMessage, TopicFilter, WakeSource, Wakeup};
use crate::transport::{Delivery, LeaseReceipt, Receipt};

/// The most messages in one claim.
const CLAIM_MAX: usize = 1_024;

/// Under load, every so many claims another priority goes first, each in its turn, so that none starves
/// however many more urgent messages come.
const FAVOUR_EVERY: u32 = 8;

/// A queue a process works on.
#[derive(Clone, Debug)]
pub(crate) struct Worked {
    pub(crate) queue: Queue,
    /// How many of its messages this process handles at once.
    pub(crate) concurrency: usize,
    /// How many may be handled at once on all processes together.
    pub(crate) running_max: Option<usize>,
}

/// Claims from one queue of the storage.
pub(crate) struct QueueWorker {
    process: Arc<Process>,
    settler: Settler,
    queue: Queue,
    /// The topics that have a handler here.
    topics: TopicFilter,
    name: String,
    slots: Arc<Slots>,
    running_max: Option<usize>,
    rates: Rates,
    claimed_last: usize,
    /// How many claims in a row brought all that was asked for.
    full_claims: u32,
}

impl QueueWorker {
    pub(crate) fn new(process: Arc<Process>, settler: Settler, worked: Worked) -> Self {
        let slots = process.queues.serve(&worked);
        let Worked { queue, running_max, .. } = worked;
        let name = format!("worker of {queue}");
        let topics = process.registry.filter();
        let rates = Rates::default();
        let (claimed_last, full_claims) = (0, 0);
        Self {
            process,
            settler,
            queue,
            topics,
            name,
            slots,
            running_max,
            rates,
            claimed_last,
            full_claims,
        }
    }

    /// The line it works on.
    fn line(&self) -> WakeSource {
        WakeSource::Topics(self.queue.clone(), self.topics.clone())
    }

    /// Whatever may give it something to do: the storage, the lookout, slots that became free, switches.
    pub(crate) fn wakeups(&self) -> Vec<Wakeup> {
        let (process, line) = (&self.process, self.line());
        let storage = process.storage.wakeup(&line);
        let switched = process.queues.wakeup();
        vec![storage, process.watched.watch(line), self.slots.wakeup(), switched]
    }

    /// Starts a message, or gives it back when it may start later only.
    fn start(&self, claimed: ClaimedMessage, later: Option<Timestamp>) {
        let receipt = LeaseReceipt { storage: self.process.storage.clone(), claimed };
        let delivery = Delivery {
            message: receipt.claimed.message.clone(),
            attempt: receipt.claimed.attempt,
            poison: None,
            receipt: Receipt::Lease(Box::new(receipt)),
        };
        let slot = self.slots.take();
        match later {
            None => start(&self.settler, delivery, slot),
            Some(due_at) => {
                let started = Box::new(begin(&self.process, delivery, &slot));
                let settler = self.settler.clone();
                tokio::spawn(async move {
                    let _slot = slot;
                    settler.give_back(started, due_at).await;
                });
            }
        }
    }
}

#[async_trait]
impl Service for QueueWorker {
    fn name(&self) -> &str {
        &self.name
    }

    async fn turn(&mut self, now: Timestamp) -> Result<Turn> {
        if self.process.queues.is_paused(&self.queue) {
            return Ok(Turn::WhenWoken);
        }
        if let Some(until) = self.process.queues.held_until(now) {
            return Ok(Turn::At(until));
        }
        self.slots.gather(self.claimed_last).await;
        let limit = self.slots.free().min(CLAIM_MAX);
        if limit == 0 {
            self.slots.starve();
            return Ok(Turn::WhenWoken);
        }
        let now = alive(&self.process, now).await?;
        if self.process.queues.is_paused(&self.queue) {
            return Ok(Turn::WhenWoken);
        }
        let until = add(now, self.process.options.lease_duration);
        let claim = Claim {
            running_max: self.running_max,
            first: favoured(self.full_claims),
            topics: self.topics.clone(),
            ..Claim::new(self.queue.clone(), self.process.id, limit, until)
        };
        let claimed = self.process.storage.claim(claim, now).await?;
        let more = claimed.len() == limit;
        self.claimed_last = claimed.len();
        self.full_claims = if more { self.full_claims.wrapping_add(1) } else { 0 };
        if claimed.iter().any(has_rate) {
            for (one, later) in self.rates.rule(&self.process, claimed, now).await {
                self.start(one, later);
            }
        } else {
            for one in claimed {
                self.start(one, None);
            }
        }
        if more {
            return Ok(Turn::Again);
        }
        let next = self.process.storage.next_due(&self.line()).await?;
        Ok(match next {
            // It is due and was not handed out: others run as many as may, or it lies behind many
            // messages of other topics. Nobody rings for that.
            Some(at) if at <= now && (self.running_max.is_some() || self.claimed_last == 0) => {
                Turn::At(add(now, self.process.options.poll_interval))
            }
            Some(at) => Turn::At(at),
            None => Turn::WhenWoken,
        })
    }
}

/// The priority that goes first this time, while there is more to do than can be done.
pub(super) fn favoured(full_claims: u32) -> Option<Priority> {
    if full_claims == 0 || !full_claims.is_multiple_of(FAVOUR_EVERY) {
        return None;
    }
    let levels = u32::from(Priority::HIGHEST.level()) + 1;
    let level = u8::try_from(full_claims / FAVOUR_EVERY % levels).ok()?;
    Priority::new(level).ok()
}

/// Starts an attempt in its own task. It is counted in before the task exists, so that shutdown and
/// the pulse see it from the first moment.
pub(super) fn start(settler: &Settler, delivery: Delivery, slot: Slot) {
    // Boxed, so that the task moves a pointer and not the whole delivery.
    let started = Box::new(begin(settler.process(), delivery, &slot));
    let settler = settler.clone();
    tokio::spawn(async move {
        // Kept until the settlement is in the writer's hands: a storage that settles slower than it is
        // claimed from must slow the claims down.
        let _slot = slot;
        match attempt(settler.process(), &started).await {
            Some(report) => settler.settle(started, report).await,
            None => settler.process().events.emit(Event::LeaseLost {
                message: started.context.message_id(),
                topic: started.context.topic().clone(),
            }),
        }
    });
}

/// Counts a delivery in.
fn begin(process: &Arc<Process>, delivery: Delivery, slot: &Slot) -> Started {
    let now = process.now();
    let handler_options = process.handler_options(&delivery.message);
    let context = context(process, &delivery, &handler_options, slot.slots(), now);
    let entered = process.in_flight.enter(&delivery.receipt, &context);
    Started { delivery, handler_options, context, entered, extras: Extras::default() }
}
