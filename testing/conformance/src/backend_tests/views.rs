//! SQL view of jobs: the jobs that a storage's test stores, and the rows that every storage must show for them.

use std::time::Duration;

use punctual::backend::policy::Verdict;
use punctual::backend::storage::{
    Claim, ClaimedMessage, Command, CommandResult, DeclareResult, EnqueueResult, Entry,
    SettleResult, Settlement,
};
use punctual::clock::add;
use punctual::jiff::Timestamp;
use punctual::model::{
    Body, DeadReason, Ending, Execution, ExecutionId, IdSource as _, Ids, Job, JobName, JobRecord,
    Key, Message, MessageId, Occurrence, Origin, Overrides, Pause, ProcessId, Queue, Retirement,
    Source,
};
use punctual::{Schedule, Storage};

use crate::message::plain;
use crate::storage::at;

/// The rows of the view after [`fill`], by name: name, type, cron, zone, payload, status, next run, last run, last
/// duration in milliseconds, retries, whether a run is skipped while one is alive, whether a worker holds a run,
/// whether the job is enabled, and the key of a one-time job that was planned at run time. `-` stands for NULL.
pub const SCHEDULED_JOBS: [&str; 20] = [
    "daily|Recurring|0 2 * * *|Europe/Warsaw|\"hi\"|Pending|2026-03-01T12:01:00.000Z|-|-|0|1|0|1|-",
    "daily|OneTime|-|UTC|\"hi\"|Running|-|2026-03-01T12:00:11.000Z|1500|0|0|1|1|redriven",
    "daily-paused|Recurring|0 2 * * *|Europe/Warsaw|\"hi\"|Disabled|-|-|-|0|1|0|0|-",
    "daily-paused|OneTime|-|UTC|\"hi\"|Pending|2026-03-01T12:05:00.000Z|-|-|0|0|0|1|later",
    "daily-paused|OneTime|-|UTC|\"hi\"|Failed|-|2026-03-01T12:00:11.000Z|1500|0|0|0|0|redriven",
    "daily-paused-running|Recurring|0 2 * * *|Europe/Warsaw|\"hi\"|Running|-|-|-|0|1|1|0|-",
    "daily-removed|Recurring|0 2 * * *|Europe/Warsaw|\"hi\"|Disabled|-|-|-|0|1|0|0|-",
    "daily-running|Recurring|0 2 * * *|Europe/Warsaw|\"hi\"|Running|2026-03-01T12:01:00.000Z|-|-|0|1|1|1|-",
    "often|Recurring|5m|UTC|\"hi\"|Pending|2026-03-01T12:01:00.000Z|-|-|0|1|0|1|-",
    "once|OneTime|-|UTC|\"hi\"|Pending|2026-03-01T12:01:00.000Z|-|-|0|1|0|1|-",
    "once-done|OneTime|-|UTC|\"hi\"|Completed|-|2026-03-01T12:00:11.000Z|1500|0|1|0|0|-",
    "once-failed|OneTime|-|UTC|\"hi\"|Failed|-|2026-03-01T12:00:11.000Z|1500|0|1|0|0|-",
    "once-paused|OneTime|-|UTC|\"hi\"|Disabled|-|-|-|0|1|0|0|-",
    "once-running|OneTime|-|UTC|\"hi\"|Running|-|-|-|0|1|1|0|-",
    "once-waiting|OneTime|-|UTC|\"hi\"|Pending|-|-|-|0|1|0|0|-",
    "reminder|OneTime|-|UTC|\"hi\"|Failed|-|2026-03-01T12:00:11.000Z|1500|0|0|0|0|dead",
    "reminder|OneTime|-|UTC|\"hi\"|Pending|2026-03-01T12:05:00.000Z|-|-|0|0|0|1|later",
    "reminder|OneTime|-|UTC|\"hi\"|Disabled|-|-|-|0|0|0|0|paused",
    "reminder|OneTime|-|UTC|\"hi\"|Pending|2026-03-01T12:05:00.000Z|2026-03-01T12:00:11.000Z|1500|0|0|0|1|redriven",
    "reminder|OneTime|-|UTC|\"hi\"|Running|-|-|-|0|0|1|1|running",
];

/// Declares jobs of every kind in every state, on a storage that has none. The times are those of [`at`].
pub async fn fill(storage: &dyn Storage) {
    let ids = Ids::seeded(7);
    let daily = Schedule::cron("0 2 * * *", "Europe/Warsaw").expect("a schedule");
    let often = Schedule::every(Duration::from_secs(300), at(0)).expect("a schedule");
    let once = Schedule::once(at(60));
    let removed = |name| JobRecord { retired: Some(Retirement::Removed), ..job(name, &daily) };
    // A vector, because a record is large and the array would lie on the stack.
    for record in vec![
        job("daily", &daily),
        paused(job("daily-paused", &daily)),
        paused(job("daily-paused-running", &daily)),
        removed("daily-removed"),
        job("daily-running", &daily),
        job("often", &often),
        job("once", &once),
        fired(job("once-done", &once)),
        fired(job("once-failed", &once)),
        paused(job("once-paused", &once)),
        fired(job("once-running", &once)),
        fired(job("once-waiting", &once)),
    ] {
        assert_eq!(storage.declare(record, None, at(0)).await.unwrap(), DeclareResult::Created);
    }
    for name in
        ["daily-paused-running", "daily-running", "once-done", "once-failed", "once-running"]
    {
        enqueue(storage, &ids, name).await;
    }
    plan(storage, &ids, "daily-paused", "later", at(300)).await;
    plan(storage, &ids, "reminder", "later", at(300)).await;
    let paused = plan(storage, &ids, "reminder", "paused", at(300)).await;
    let pause = Pause { by: "ada".to_owned(), reason: "a test".to_owned(), at: at(0), until: None };
    let command = Command::Pause { id: paused, pause };
    assert_eq!(storage.command(command, at(0)).await.unwrap(), CommandResult::Applied(1));
    plan(storage, &ids, "reminder", "dead", at(0)).await;
    plan(storage, &ids, "reminder", "running", at(0)).await;
    let claimed = claim(storage, &ids, 9, at(10)).await;
    assert_eq!(claimed.len(), 7);
    let dead = Verdict::Dead { reason: DeadReason::AttemptsSpent, error: None };
    for (name, key, ending, verdict) in [
        ("once-done", None, Ending::Succeeded, Verdict::Done),
        ("once-failed", None, Ending::Failed, dead.clone()),
        ("reminder", Some("dead"), Ending::Failed, dead),
    ] {
        let matches = |run: &&ClaimedMessage| {
            job_of(run).as_str() == name && run.message.key.as_ref().map(Key::as_str) == key
        };
        let run = claimed.iter().find(matches).unwrap();
        let settlement =
            Settlement::new(run.lease_ref(), verdict, Some(execution(&ids, run, ending).into()));
        let settled = storage.settle(vec![settlement], at(13)).await.unwrap();
        assert_eq!(settled, [SettleResult::Applied]);
    }
    fill_redriven(storage, &ids).await;
    enqueue(storage, &ids, "once-waiting").await;
}

/// Planned one-time jobs that were dead letters and were sent again, two of them under the name of a recurring job:
/// one waits, one is running, and one is a dead letter once more.
async fn fill_redriven(storage: &dyn Storage, ids: &Ids) {
    for (name, due_at) in [("reminder", at(300)), ("daily", at(20)), ("daily-paused", at(19))] {
        let id = plan(storage, ids, name, "redriven", at(14)).await;
        let run = claim(storage, ids, 1, at(14)).await.remove(0);
        assert_eq!(run.message.id, id);
        give_up(storage, ids, &run, at(15)).await;
        let redrive = Command::Redrive { id, due_at };
        assert_eq!(storage.command(redrive, at(15)).await.unwrap(), CommandResult::Applied(1));
    }
    let again = claim(storage, ids, 2, at(20)).await;
    let job_names: Vec<&str> = again.iter().map(|run| job_of(run).as_str()).collect();
    assert_eq!(job_names, ["daily-paused", "daily"]);
    give_up(storage, ids, &again[0], at(21)).await;
}

async fn claim(
    storage: &dyn Storage,
    ids: &Ids,
    limit: usize,
    now: Timestamp,
) -> Vec<ClaimedMessage> {
    let owner = ProcessId::from_uuid(ids.next(at(0)));
    storage.claim(Claim::new(Queue::default(), owner, limit, at(60)), now).await.unwrap()
}

async fn give_up(storage: &dyn Storage, ids: &Ids, run: &ClaimedMessage, now: Timestamp) {
    let verdict = Verdict::Dead { reason: DeadReason::AttemptsSpent, error: None };
    let execution = Some(execution(ids, run, Ending::Failed).into());
    let settlement = Settlement::new(run.lease_ref(), verdict, execution);
    assert_eq!(storage.settle(vec![settlement], now).await.unwrap(), [SettleResult::Applied]);
}

fn job(name: &str, schedule: &Schedule) -> JobRecord {
    let job = Job::new(name, schedule.clone()).unwrap();
    let job = Job { body: Body::json("hi").unwrap(), ..job };
    JobRecord {
        declared: job.clone(),
        configured: None,
        overrides: Overrides::default(),
        job,
        origin: Origin::Declared,
        app: "tests".to_owned(),
        release: 1,
        cursor: Some(at(60)),
        last_nominal: None,
        runs: 0,
        paused: None,
        retired: None,
        created_at: at(0),
        updated_at: at(0),
        version: 0,
    }
}

/// Paused until an instant, which is not the next run.
fn paused(record: JobRecord) -> JobRecord {
    let (by, reason) = ("ada".to_owned(), "a test".to_owned());
    JobRecord { paused: Some(Pause { by, reason, at: at(0), until: Some(at(900)) }), ..record }
}

/// After its only occurrence became a message.
fn fired(record: JobRecord) -> JobRecord {
    let retired = Some(Retirement::Finished);
    JobRecord { cursor: None, last_nominal: Some(at(0)), runs: 1, retired, ..record }
}

/// Enqueues a run that an operator triggered, so that a pause does not hold it back.
async fn enqueue(storage: &dyn Storage, ids: &Ids, name: &str) {
    let job = JobName::new(name).unwrap();
    let occurrence = Occurrence { job, nominal: at(0), schedule: None, misfire: None };
    let message = plain(ids, "mail", Body::raw("hello", "text/plain"), at(0));
    let message = Message { source: Source::Manual, occurrence: Some(occurrence), ..message };
    let stored = storage.enqueue(vec![Entry::from(message)], at(0)).await.unwrap();
    assert_eq!(stored, [EnqueueResult::Stored]);
}

/// Plans a one-time job as an application does at run time.
async fn plan(
    storage: &dyn Storage,
    ids: &Ids,
    name: &str,
    key: &str,
    due_at: Timestamp,
) -> MessageId {
    let job = JobName::new(name).unwrap();
    let occurrence = Occurrence { job, nominal: due_at, schedule: None, misfire: None };
    let message = Message {
        source: Source::Deferred,
        due_at,
        key: Some(Key::new(key).unwrap()),
        occurrence: Some(occurrence),
        ..plain(ids, "mail", Body::json("hi").unwrap(), at(0))
    };
    let id = message.id;
    let stored = storage.enqueue(vec![Entry::from(message)], at(0)).await.unwrap();
    assert_eq!(stored, [EnqueueResult::Stored]);
    id
}

fn job_of(claimed: &ClaimedMessage) -> &JobName {
    &claimed.message.occurrence.as_ref().unwrap().job
}

/// An attempt that began at 11 seconds and took one and a half.
fn execution(ids: &Ids, claimed: &ClaimedMessage, ending: Ending) -> Execution {
    let message = &claimed.message;
    Execution {
        id: ExecutionId::from_uuid(ids.next(at(0))),
        message: Some(message.id),
        topic: message.topic.clone(),
        queue: message.queue.clone(),
        key: None,
        job: Some(job_of(claimed).clone()),
        nominal: Some(at(0)),
        source: message.source,
        attempt: claimed.attempt,
        attempts_max: None,
        process: Some(claimed.lease.owner),
        due_at: claimed.due_at,
        started_at: at(11),
        ended_at: add(at(11), Duration::from_millis(1_500)),
        ending,
        note: None,
        log: None,
    }
}
