//! Work for processes elsewhere, in any language: they claim, extend, keep, settle and release by way of
//! this process, each under its own identity. What they report leads to exactly what an attempt here would
//! lead to. Middleware and external locks are of the process that handles, so they are not asked.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::clock::{Clock, add};
use crate::engine::{Process, ProcessTasks, http_worker};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::handler::{Outcome, ProgressReport};
use crate::model::{Body, ExecutionId, LeaseRef, MessageId, ProcessId, Queue, Topic};
use crate::storage::{
    ClaimedMessage, ExtendResult, ProgressUpdate, SettleResult, TopicFilter, WakeSource, Wakeup,
};

/// The most messages in one claim, and leases in one extension.
pub const HTTP_WORKER_BATCH_MAX: usize = 1_000;
/// The most topics a worker elsewhere may name.
pub const HTTP_WORKER_TOPICS_MAX: usize = 100;
/// The longest lease a worker elsewhere may ask for.
pub const HTTP_WORKER_LEASE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// The longest wait for something to do.
pub const HTTP_WORKER_WAIT_MAX: Duration = Duration::from_secs(5 * 60);

/// What a worker elsewhere asks for.
#[derive(Clone, Debug)]
pub struct HttpWorkerClaim {
    /// The queue.
    pub queue: Queue,
    /// The topics the worker handles, at most [`HTTP_WORKER_TOPICS_MAX`]; none for every topic of the queue.
    /// Messages of Punctual's own topics are never handed out.
    pub topics: Option<Vec<Topic>>,
    /// Who asks; an identity that is new at every start of the worker.
    pub worker: ProcessId,
    /// The most messages it can start now, at most [`HTTP_WORKER_BATCH_MAX`].
    pub limit: usize,
    /// How long it has without extending, at most [`HTTP_WORKER_LEASE_MAX`].
    pub lease: Duration,
}

impl HttpWorkerClaim {
    /// Returns which messages of the queue may be handed out.
    pub(crate) fn filter(&self) -> TopicFilter {
        match &self.topics {
            Some(topics) => {
                TopicFilter::only(topics.iter().filter(|topic| !topic.is_system()).cloned())
            }
            None => TopicFilter::NotSystem,
        }
    }
}

/// A message in the hands of a worker elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct AssignedMessage {
    /// What its end must show.
    pub ticket: AttemptTicket,
    /// The message, with its body as it was sent, and what is known of it.
    pub claimed: ClaimedMessage,
    /// When the attempt began, to the millisecond.
    pub started_at: Timestamp,
    /// How many attempts there may be; none without a limit.
    pub attempts_max: Option<u32>,
    /// After this the attempt has timed out, whatever is reported.
    pub deadline: Option<Timestamp>,
}

/// The right to end one attempt: give back what came with the message. As text it is opaque.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttemptTicket {
    /// The lease.
    pub lease: LeaseRef,
    /// The attempt, as history and events name it.
    pub execution: ExecutionId,
}

impl fmt::Display for AttemptTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.lease.message, self.lease.token, self.execution)
    }
}

impl FromStr for AttemptTicket {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parse = || {
            let mut parts = text.splitn(3, '.');
            let message: MessageId = parts.next()?.parse().ok()?;
            let token = parts.next()?.parse().ok()?;
            let execution = parts.next()?.parse().ok()?;
            Some(Self { lease: LeaseRef { message, token }, execution })
        };
        parse().ok_or_else(|| {
            Error::invalid(format!(
                "{text:?} is not a ticket; give back the one that came with the message"
            ))
        })
    }
}

/// How an attempt elsewhere ended.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpWorkerReport {
    /// What the worker says, or the failure in words.
    pub outcome: std::result::Result<Outcome, String>,
    /// A sentence for the history.
    pub note: Option<String>,
    /// Lines for people; the newest 100 are kept, 1,000 characters of each.
    pub log: Vec<String>,
    /// What the messages that follow this one get to see of it.
    pub result: Option<Body>,
}

impl HttpWorkerReport {
    /// A report that says nothing else.
    pub fn new(outcome: Outcome) -> Self {
        Self { outcome: Ok(outcome), note: None, log: Vec::new(), result: None }
    }

    /// A failure in words.
    pub fn failed(error: impl Into<String>) -> Self {
        Self { outcome: Err(error.into()), note: None, log: Vec::new(), result: None }
    }
}

/// Work for processes elsewhere. Cheap to clone.
///
/// A worker that vanishes loses its leases when they run out, and the rescuer treats its attempts as
/// those of any process that was lost.
#[derive(Clone)]
pub struct HttpWorkers {
    process: Arc<Process>,
    crew: Arc<ProcessTasks>,
}

impl HttpWorkers {
    pub(crate) fn new(process: Arc<Process>, crew: Arc<ProcessTasks>) -> Self {
        Self { process, crew }
    }

    /// Hands out at most `limit` due messages of a queue, each under a lease of the worker's own. Nothing
    /// while the queue is paused, or this process stops, or its scheduler has not decided yet about everything that was
    /// due at its start, which takes 10 seconds at most.
    ///
    /// Whoever drops this future may leave messages claimed that nobody got; their leases run out.
    pub async fn claim(&self, ask: HttpWorkerClaim) -> Result<Vec<AssignedMessage>> {
        self.check(&ask)?;
        http_worker::claim(&self.process, &self.crew.settling()?, &ask).await
    }

    /// The same, but waits for something to do until an instant, at most [`HTTP_WORKER_WAIT_MAX`] from now:
    /// long polling in one call.
    pub async fn claim_within(
        &self,
        ask: HttpWorkerClaim,
        until: Timestamp,
    ) -> Result<Vec<AssignedMessage>> {
        self.check(&ask)?;
        let settler = self.crew.settling()?;
        let until = self.bounded(until);
        let line = WakeSource::Topics(ask.queue.clone(), ask.filter());
        // Before the first look, so that nothing is missed between the two.
        let mut bells = Bells::of(&self.process, &ask.queue);
        loop {
            let assigned = http_worker::claim(&self.process, &settler, &ask).await?;
            let now = self.process.now();
            if !assigned.is_empty() || now >= until || self.process.stop.is_requested() {
                return Ok(assigned);
            }
            let next = self.process.storage.next_due(&line).await?;
            // What is due and was not handed out waits for its turn: a bell says when to ask again.
            let at = next.filter(|next| *next > now).map_or(until, |next| next.min(until));
            let at = self.process.queues.held_until(now).map_or(at, |held| at.min(held));
            bells.notified(&self.process, at).await;
        }
    }

    /// Waits until a queue may have something due, at most until an instant or for [`HTTP_WORKER_WAIT_MAX`];
    /// answers whether it may. A claim can still come back empty, as when everything has to wait for its
    /// turn; [`HttpWorkers::claim_within`] knows that, and is what a loop should call.
    pub async fn wait_for(
        &self,
        queue: impl TryInto<Queue, Error = Error>,
        until: Timestamp,
    ) -> Result<bool> {
        let queue = queue.try_into()?;
        let until = self.bounded(until);
        let mut bells = Bells::of(&self.process, &queue);
        loop {
            let next = self.process.storage.next_due(&bells.line).await?;
            let next = next.filter(|_| !self.process.queues.is_paused(&queue));
            let now = self.process.now();
            let next = self.process.queues.held_until(now).or(next);
            if next.is_some_and(|next| next <= now) {
                return Ok(true);
            }
            if now >= until || self.process.stop.is_requested() {
                return Ok(false);
            }
            bells.notified(&self.process, next.map_or(until, |next| next.min(until))).await;
        }
    }

    /// Renews leases, for so long from now; answers for each whether it is held, lost, or to be
    /// cancelled, which the worker has to see to.
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
        self.process.storage.heartbeat(worker, until, now).await?;
        self.process.storage.extend(leases, until, now).await
    }

    /// Keeps how far a worker is, and where the next attempt should go on. What is none stays as it was.
    pub async fn keep(
        &self,
        ticket: AttemptTicket,
        progress: Option<ProgressReport>,
        checkpoint: Option<Body>,
    ) -> Result<ExtendResult> {
        if let Some(checkpoint) = &checkpoint {
            checkpoint.check(self.process.options.payload_max)?;
        }
        let (lease, now) = (ticket.lease, self.process.now());
        let stored = progress.clone().map(|progress| progress.at(now));
        let keep = ProgressUpdate { lease, progress: stored, checkpoint };
        let answers = self.process.storage.save_progress(vec![keep], now).await?;
        let answer = answers.first().copied().unwrap_or(ExtendResult::Lost);
        if let Some(ProgressReport { percent, note }) =
            progress.filter(|_| answer != ExtendResult::Lost)
        {
            let (message, execution) = (lease.message, ticket.execution);
            self.process.events.emit(Event::AttemptProgressed {
                message,
                execution,
                percent,
                note,
            });
        }
        Ok(answer)
    }

    /// Ends an attempt: what its report leads to is decided as for an attempt here, and written down
    /// before this answers. An old ticket changes nothing and is answered [`SettleResult::Lost`]; so is one
    /// that was used already.
    pub async fn settle(
        &self,
        worker: ProcessId,
        ticket: AttemptTicket,
        report: HttpWorkerReport,
    ) -> Result<SettleResult> {
        http_worker::settle(&self.process, &self.crew.settling()?, (worker, ticket), Some(report))
            .await
    }

    /// Gives a message back as if it had not been claimed: it is due at once, and no attempt is spent.
    /// For a worker that stops, and for one that was never reached.
    pub async fn release(&self, worker: ProcessId, ticket: AttemptTicket) -> Result<SettleResult> {
        http_worker::settle(&self.process, &self.crew.settling()?, (worker, ticket), None).await
    }

    fn bounded(&self, until: Timestamp) -> Timestamp {
        until.min(add(self.process.now(), HTTP_WORKER_WAIT_MAX))
    }

    fn check(&self, ask: &HttpWorkerClaim) -> Result<()> {
        check_count("messages", ask.limit)?;
        check_lease(ask.lease)?;
        if let Some(topics) = &ask.topics {
            check_topics(topics)?;
        }
        if ask.queue.is_reserved() {
            return Err(Error::invalid(format!(
                "the line {:?} belongs to a transport and cannot be worked on",
                ask.queue
            )));
        }
        if ask.worker == self.process.id {
            return Err(Error::invalid(format!(
                "the worker {} is this process itself; a worker elsewhere has an identity of its own",
                ask.worker
            )));
        }
        Ok(())
    }
}

fn check_count(what: &str, count: usize) -> Result<()> {
    if (1..=HTTP_WORKER_BATCH_MAX).contains(&count) {
        return Ok(());
    }
    Err(Error::invalid(format!("{count} {what} at once; ask for 1 to {HTTP_WORKER_BATCH_MAX}")))
}

fn check_topics(topics: &[Topic]) -> Result<()> {
    if let Some(topic) = topics.iter().find(|topic| topic.is_system()) {
        return Err(Error::invalid(format!(
            "the topic {topic:?} belongs to Punctual and is never handed out; leave it out"
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
        "a lease of {lease:?}; ask for more than nothing and at most {HTTP_WORKER_LEASE_MAX:?}"
    )))
}

/// Everything that may mean that a queue has something to do.
struct Bells {
    line: WakeSource,
    stored: Wakeup,
    seen: Wakeup,
    switched: Wakeup,
}

impl Bells {
    fn of(process: &Process, queue: &Queue) -> Self {
        let line = WakeSource::Topics(queue.clone(), TopicFilter::NotSystem);
        let (stored, seen) = (process.storage.wakeup(&line), process.watched.listen(&line));
        Self { line, stored, seen, switched: process.queues.wakeup() }
    }

    /// Waits for the first of them, or for an instant.
    async fn notified(&mut self, process: &Process, at: Timestamp) {
        tokio::select! {
            biased;
            () = process.stop.requested() => {}
            () = self.stored.notified() => {}
            () = self.seen.notified() => {}
            () = self.switched.notified() => {}
            () = process.clock.sleep_until(at) => {}
        }
    }
}
