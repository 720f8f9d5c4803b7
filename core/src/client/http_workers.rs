//! HTTP workers: processes in any language that claim, extend, report progress, settle and release messages through
//! this process, each with its own id. Their reports are settled exactly as attempts in this process. Middleware and
//! external locks do not apply, because they belong to the process that runs the handler.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::clock::Clock;
use crate::engine::http_worker::{
    AssignedMessage, AttemptTicket, HTTP_WORKER_BATCH_MAX, HTTP_WORKER_LEASE_MAX,
    HTTP_WORKER_TOPICS_MAX, HTTP_WORKER_WAIT_MAX, HttpWorkerClaim, HttpWorkerReport,
};
use crate::engine::{Process, ProcessTasks, http_worker};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::handler::ProgressReport;
use crate::model::time::add;
use crate::model::{Body, LeaseRef, ProcessId, Queue, Topic};
use crate::storage::{ExtendResult, ProgressUpdate, SettleResult, TopicFilter, WakeSource, Wakeup};

/// API for HTTP workers. Cheap to clone.
///
/// When a worker is lost its leases expire, and the rescuer treats its attempts as those of any lost process.
#[derive(Clone)]
pub struct HttpWorkers {
    process: Arc<Process>,
    tasks: Arc<ProcessTasks>,
}

impl HttpWorkers {
    pub(crate) fn new(process: Arc<Process>, tasks: Arc<ProcessTasks>) -> Self {
        Self { process, tasks }
    }

    /// Claims up to `limit` due messages of a queue for a worker, each under a lease. Returns none while the
    /// queue is paused, while this process stops, and before its scheduler has processed the jobs that were due
    /// at its start, which takes 10 seconds at most.
    ///
    /// Dropping this future may leave messages claimed without a worker; their leases expire.
    pub async fn claim(&self, request: HttpWorkerClaim) -> Result<Vec<AssignedMessage>> {
        self.check(&request)?;
        http_worker::claim(&self.process, &self.tasks.settling()?, &request).await
    }

    /// Claims like [`HttpWorkers::claim`], but waits for due messages until an instant, at most
    /// [`HTTP_WORKER_WAIT_MAX`] from now: long polling in one call.
    pub async fn claim_within(
        &self,
        request: HttpWorkerClaim,
        until: Timestamp,
    ) -> Result<Vec<AssignedMessage>> {
        self.check(&request)?;
        let settler = self.tasks.settling()?;
        let until = self.bounded(until);
        let source = WakeSource::Topics(request.queue.clone(), request.filter());
        // Before the first claim, so that no notification is missed between the two.
        let mut wakeups = Wakeups::of(&self.process, &request.queue);
        loop {
            let assigned = http_worker::claim(&self.process, &settler, &request).await?;
            let now = self.process.now();
            if !assigned.is_empty() || now >= until || self.process.env.stop.is_requested() {
                return Ok(assigned);
            }
            let next = self.process.env.storage.next_due(&source).await?;
            // A due message that was not claimed is blocked; a notification follows when it can run.
            let at = next.filter(|next| *next > now).map_or(until, |next| next.min(until));
            let at =
                self.process.queues.claims_blocked_until(now).map_or(at, |until| at.min(until));
            wakeups.notified(&self.process, at).await;
        }
    }

    /// Waits until a queue may have due messages, at most until an instant or for [`HTTP_WORKER_WAIT_MAX`];
    /// returns whether it may. A claim can still return none, as when limits block all messages; a loop
    /// should call [`HttpWorkers::claim_within`].
    pub async fn wait_for(
        &self,
        queue: impl TryInto<Queue, Error = Error>,
        until: Timestamp,
    ) -> Result<bool> {
        let queue = queue.try_into()?;
        let until = self.bounded(until);
        let mut wakeups = Wakeups::of(&self.process, &queue);
        loop {
            let next = self.process.env.storage.next_due(&wakeups.source).await?;
            let next = next.filter(|_| !self.process.queues.is_paused(&queue));
            let now = self.process.now();
            let next = self.process.queues.claims_blocked_until(now).or(next);
            if next.is_some_and(|next| next <= now) {
                return Ok(true);
            }
            if now >= until || self.process.env.stop.is_requested() {
                return Ok(false);
            }
            wakeups.notified(&self.process, next.map_or(until, |next| next.min(until))).await;
        }
    }

    /// Renews leases for a duration from now; returns for each whether it is held, lost, or whether the worker
    /// has to cancel its attempt.
    pub async fn extend(
        &self,
        worker: ProcessId,
        leases: &[LeaseRef],
        lease: Duration,
    ) -> Result<Vec<ExtendResult>> {
        check_count("leases", leases.len())?;
        check_lease(lease)?;
        let now = self.process.now();
        let until = add(now, lease);
        self.process.env.storage.heartbeat(worker, until, now).await?;
        self.process.env.storage.extend(leases, until, now).await
    }

    /// Saves the progress of an attempt, and the checkpoint from which the next attempt resumes. A value that is
    /// `None` stays unchanged.
    pub async fn save_progress(
        &self,
        ticket: AttemptTicket,
        progress: Option<ProgressReport>,
        checkpoint: Option<Body>,
    ) -> Result<ExtendResult> {
        if let Some(checkpoint) = &checkpoint {
            checkpoint.check(self.process.env.options.payload_max)?;
        }
        let (lease, now) = (ticket.lease, self.process.now());
        let stored = progress.clone().map(|progress| progress.at(now));
        let update = ProgressUpdate { lease, progress: stored, checkpoint };
        let results = self.process.env.storage.save_progress(vec![update], now).await?;
        let result = results.first().copied().unwrap_or(ExtendResult::Lost);
        if let Some(ProgressReport { percent, note }) =
            progress.filter(|_| result != ExtendResult::Lost)
            && let Some(record) = self.process.env.inspect.message(lease.message).await?
        {
            self.process.env.events.emit(Event::AttemptProgressed {
                message: lease.message,
                execution: ticket.execution,
                topic: record.message.topic.clone(),
                percent,
                note,
            });
        }
        Ok(result)
    }

    /// Settles an attempt by its report, as an attempt in this process; returns when the settlement is stored. An
    /// old or already used ticket changes nothing and returns [`SettleResult::Lost`].
    pub async fn settle(
        &self,
        worker: ProcessId,
        ticket: AttemptTicket,
        report: HttpWorkerReport,
    ) -> Result<SettleResult> {
        http_worker::settle(&self.process, &self.tasks.settling()?, (worker, ticket), Some(report))
            .await
    }

    /// Releases a message: it is due immediately and its attempt does not count. For a worker that stops, or that
    /// the response did not reach.
    pub async fn release(&self, worker: ProcessId, ticket: AttemptTicket) -> Result<SettleResult> {
        http_worker::settle(&self.process, &self.tasks.settling()?, (worker, ticket), None).await
    }

    fn bounded(&self, until: Timestamp) -> Timestamp {
        until.min(add(self.process.now(), HTTP_WORKER_WAIT_MAX))
    }

    fn check(&self, request: &HttpWorkerClaim) -> Result<()> {
        check_count("messages", request.limit)?;
        check_lease(request.lease)?;
        if let Some(topics) = &request.topics {
            check_topics(topics)?;
        }
        if request.queue.is_reserved() {
            return Err(Error::invalid(format!(
                "the queue {:?} belongs to a transport and cannot be worked on",
                request.queue
            )));
        }
        if request.worker == self.process.env.id {
            return Err(Error::invalid(format!(
                "the worker id {} is the id of this process; create an id at the start of the worker",
                request.worker
            )));
        }
        Ok(())
    }
}

fn check_count(what: &str, count: usize) -> Result<()> {
    if (1..=HTTP_WORKER_BATCH_MAX).contains(&count) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{count} {what} in one call is out of range, use 1 to {HTTP_WORKER_BATCH_MAX}"
    )))
}

fn check_topics(topics: &[Topic]) -> Result<()> {
    if let Some(topic) = topics.iter().find(|topic| topic.is_system()) {
        return Err(Error::invalid(format!(
            "the topic {topic:?} belongs to Punctual and is never assigned to HTTP workers; leave it out"
        )));
    }
    if (1..=HTTP_WORKER_TOPICS_MAX).contains(&topics.len()) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{} topics; name 1 to {HTTP_WORKER_TOPICS_MAX}, or none at all for every topic of the queue",
        topics.len()
    )))
}

fn check_lease(lease: Duration) -> Result<()> {
    if !lease.is_zero() && lease <= HTTP_WORKER_LEASE_MAX {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a lease of {lease:?} is out of range, use more than zero and at most {HTTP_WORKER_LEASE_MAX:?}"
    )))
}

/// The wakeups after which a queue may have due messages: of the storage, the poller and the queue controls.
struct Wakeups {
    source: WakeSource,
    storage: Wakeup,
    poller: Wakeup,
    controls: Wakeup,
}

impl Wakeups {
    fn of(process: &Process, queue: &Queue) -> Self {
        let source = WakeSource::Topics(queue.clone(), TopicFilter::NotSystem);
        let (storage, poller) =
            (process.env.storage.wakeup(&source), process.watch_list.listen(&source));
        Self { source, storage, poller, controls: process.queues.wakeup() }
    }

    /// Waits for the first of them, or for an instant.
    async fn notified(&mut self, process: &Process, at: Timestamp) {
        tokio::select! {
            biased;
            () = process.env.stop.requested() => {}
            () = self.storage.notified() => {}
            () = self.poller.notified() => {}
            () = self.controls.notified() => {}
            () = process.env.clock.sleep_until(at) => {}
        }
    }
}
