//! A fresh storage with a clock of its own, and short ways to say the usual things.

use std::sync::Arc;
use std::time::Duration;

use punctual::jiff::{SignedDuration, Timestamp};
use punctual::model::{
    Body, Ending, Execution, ExecutionId, Headers, IdSource, Ids, Job, JobName, JobRecord, Key,
    Message, MessageId, MessageRecord, Occurrence, Origin, Overrides, Priority, ProcessId, Queue,
    Source, State, Topic, Trail,
};
use punctual::policy::{Verdict, Why};
use punctual::storage::{
    Claim, Claimed, Command, Commanded, Enqueued, Entry, Firing, Reclaim, Settled, Settlement,
};
use punctual::{Inspect, ManualClock, MemoryStorage, Schedule, Storage};

pub(super) struct Fixture {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) inspect: Arc<dyn Inspect>,
    pub(super) clock: ManualClock,
    ids: Ids,
}

/// So many seconds after the beginning of every test; before it when negative.
pub(super) fn at(second: i64) -> Timestamp {
    let start: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
    start + SignedDuration::from_secs(second)
}

pub(super) fn nanosecond_after(instant: Timestamp) -> Timestamp {
    instant + SignedDuration::from_nanos(1)
}

pub(super) fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

pub(super) fn queue(text: &str) -> Queue {
    Queue::new(text).unwrap()
}

pub(super) fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Due again, with the counts as claimed.
pub(super) fn again(claimed: &Claimed, due_at: Timestamp) -> Verdict {
    Verdict::Again {
        due_at,
        attempt: claimed.attempt,
        crashes: claimed.crashes,
        snoozes: claimed.snoozes,
        error: None,
        why: Why::Retry,
    }
}

pub(super) fn ids_of(claimed: &[Claimed]) -> Vec<MessageId> {
    claimed.iter().map(|one| one.message.id).collect()
}

impl Fixture {
    pub(super) fn new() -> Self {
        Self::with(|storage| storage)
    }

    /// A fixture whose storage was built with options.
    pub(super) fn with(options: impl FnOnce(MemoryStorage) -> MemoryStorage) -> Self {
        let clock = ManualClock::new(at(0));
        let storage = Arc::new(options(MemoryStorage::new(Arc::new(clock.clone()))));
        Self { inspect: storage.clone(), storage, clock, ids: Ids::seeded(7) }
    }

    pub(super) fn message(&self) -> Message {
        Message {
            id: MessageId::from_uuid(self.ids.next(at(0))),
            topic: Topic::new("mail").unwrap(),
            queue: Queue::default(),
            priority: Priority::NORMAL,
            due_at: at(0),
            created_at: at(0),
            source: Source::Published,
            key: None,
            dedupe: None,
            exclusive: false,
            body: Body::raw("hello", "text/plain"),
            headers: Headers::new(),
            trail: Trail::default(),
            occurrence: None,
            terms: None,
        }
    }

    pub(super) fn due(&self, due_at: Timestamp) -> Message {
        Message { due_at, ..self.message() }
    }

    pub(super) fn deduplicated(&self, text: &str) -> Message {
        Message { dedupe: Some(key(text)), ..self.message() }
    }

    /// A message of an occurrence of a job.
    pub(super) fn run_of(&self, job: &str, nominal: Timestamp) -> Message {
        let job = JobName::new(job).unwrap();
        Message {
            dedupe: Some(Occurrence::identity(&job, nominal)),
            occurrence: Some(Occurrence { job, nominal, schedule: None, misfire: None }),
            source: Source::Scheduled,
            ..self.message()
        }
    }

    pub(super) fn process(&self) -> ProcessId {
        ProcessId::from_uuid(self.ids.next(at(0)))
    }

    pub(super) async fn enqueue(&self, message: Message) -> MessageId {
        let id = message.id;
        assert_eq!(self.offer(message).await, Enqueued::Stored);
        id
    }

    /// Enqueues one message that may be refused.
    pub(super) async fn offer(&self, message: Message) -> Enqueued {
        self.storage.enqueue(vec![Entry::from(message)], at(0)).await.unwrap()[0]
    }

    pub(super) async fn offer_in_place(&self, message: Message) -> Enqueued {
        let entry = Entry { message: Arc::new(message), replace: true };
        self.storage.enqueue(vec![entry], at(0)).await.unwrap()[0]
    }

    pub(super) async fn enqueue_many(&self, count: usize) -> Vec<MessageId> {
        let messages: Vec<Message> = (0..count).map(|_| self.message()).collect();
        let ids = messages.iter().map(|message| message.id).collect();
        let entries = messages.into_iter().map(Entry::from).collect();
        self.storage.enqueue(entries, at(0)).await.unwrap();
        ids
    }

    /// Claims from the default queue under a lease of a minute.
    pub(super) async fn claim(
        &self,
        owner: ProcessId,
        limit: usize,
        now: Timestamp,
    ) -> Vec<Claimed> {
        let until = now + SignedDuration::from_secs(60);
        let claim = Claim { queue: Queue::default(), owner, limit, until };
        self.storage.claim(claim, now).await.unwrap()
    }

    /// Claims the one message that is due.
    pub(super) async fn claim_one(&self, now: Timestamp) -> Claimed {
        let claimed = self.claim(self.process(), 10, now).await;
        assert_eq!(claimed.len(), 1);
        claimed.into_iter().next().unwrap()
    }

    pub(super) async fn reclaim(&self, limit: usize, now: Timestamp) -> Vec<Claimed> {
        let until = now + SignedDuration::from_secs(60);
        let reclaim = Reclaim { owner: self.process(), limit, until };
        self.storage.reclaim(reclaim, now).await.unwrap()
    }

    /// Settles with an execution that ended now.
    pub(super) async fn settle(
        &self,
        claimed: &Claimed,
        verdict: Verdict,
        now: Timestamp,
    ) -> Settled {
        let execution: Option<Arc<Execution>> = Some(self.execution(claimed, now).into());
        let settlement = Settlement { lease: claimed.lease_ref(), verdict, execution };
        self.storage.settle(vec![settlement], now).await.unwrap()[0]
    }

    /// Enqueues a message and brings it to a final state.
    pub(super) async fn finish(
        &self,
        message: Message,
        verdict: Verdict,
        now: Timestamp,
    ) -> MessageId {
        let id = self.enqueue(message).await;
        let claimed = self.claim(self.process(), 1, now).await;
        assert_eq!(ids_of(&claimed), [id]);
        assert_eq!(self.settle(&claimed[0], verdict, now).await, Settled::Applied);
        id
    }

    pub(super) async fn command(&self, command: Command) -> Commanded {
        self.storage.command(command, at(1)).await.unwrap()
    }

    pub(super) async fn record(&self, id: MessageId) -> MessageRecord {
        self.inspect.message(id).await.unwrap().expect("the message is known")
    }

    pub(super) async fn state(&self, id: MessageId) -> Option<State> {
        self.inspect.message(id).await.unwrap().map(|record| record.state)
    }

    pub(super) fn execution(&self, claimed: &Claimed, ended_at: Timestamp) -> Execution {
        let message = &claimed.message;
        Execution {
            id: ExecutionId::from_uuid(self.ids.next(at(0))),
            message: Some(message.id),
            topic: message.topic.clone(),
            queue: message.queue.clone(),
            key: message.key.clone(),
            job: message.occurrence.as_ref().map(|occurrence| occurrence.job.clone()),
            nominal: message.occurrence.as_ref().map(|occurrence| occurrence.nominal),
            source: message.source,
            attempt: claimed.attempt,
            attempts_max: None,
            process: Some(claimed.lease.owner),
            due_at: claimed.due_at,
            started_at: ended_at,
            ended_at,
            ending: Ending::Succeeded,
            note: None,
        }
    }

    /// A job as it is first declared, due at its cursor.
    pub(super) fn job(name: &str, cursor: Option<Timestamp>) -> JobRecord {
        let job = Job::new(name, Schedule::every(seconds(60), at(0)).unwrap()).unwrap();
        JobRecord {
            declared: job.clone(),
            configured: None,
            overrides: Overrides::default(),
            job,
            origin: Origin::Declared,
            app: "shop".to_owned(),
            release: 1,
            cursor,
            last_nominal: None,
            runs: 0,
            paused: None,
            retired: None,
            created_at: at(0),
            updated_at: at(0),
            version: 1,
        }
    }

    pub(super) async fn declare(&self, record: JobRecord) -> JobRecord {
        let name = record.job.name.clone();
        self.storage.declare(record, None, at(0)).await.unwrap();
        self.stored_job(&name).await
    }

    pub(super) async fn stored_job(&self, name: &JobName) -> JobRecord {
        self.inspect.job(name).await.unwrap().expect("the job is known")
    }

    /// Fires one occurrence of a job and moves its cursor to an instant.
    pub(super) fn firing(&self, job: &JobRecord, nominal: Timestamp, cursor: Timestamp) -> Firing {
        let message = self.run_of(job.job.name.as_str(), nominal);
        let after = JobRecord {
            cursor: Some(cursor),
            last_nominal: Some(nominal),
            runs: job.runs + 1,
            ..job.clone()
        };
        Firing {
            job: job.job.name.clone(),
            seen: job.version,
            messages: vec![Arc::new(message)],
            skipped: Vec::new(),
            alive_max: None,
            cancel_alive: false,
            after: Box::new(after),
        }
    }
}
