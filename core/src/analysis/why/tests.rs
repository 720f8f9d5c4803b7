//! A row for every word, and for the facts that change it.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::*;
use crate::model::{
    BatchId, Body, Correlation, DeadReason, Headers, Job, Key, Lease, MessageId, MessagePause,
    Origin, Overrides, Priority, ProcessId, Progress, Rate, Relations,
};
use crate::schedule::Schedule;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn message() -> Message {
    Message {
        id: MessageId::from_uuid(Uuid::nil()),
        topic: Topic::new("mail").unwrap(),
        queue: Queue::new("post").unwrap(),
        priority: Priority::NORMAL,
        due_at: at(100),
        created_at: at(40),
        source: Source::Published,
        key: None,
        dedupe: None,
        exclusive: false,
        body: Body::empty(),
        headers: Headers::new(),
        correlation: Correlation::default(),
        occurrence: None,
        handler_options: None,
        relations: None,
        route: None,
    }
}

fn record(message: Message) -> MessageRecord {
    MessageRecord::new(Arc::new(message))
}

fn related(relations: Relations) -> Message {
    Message { relations: Some(Arc::new(relations)), ..message() }
}

fn limited(name: &str, running_max: Option<u32>, rate: Option<Rate>) -> Message {
    let limit = Limit { name: Key::stored(name), running_max, rate };
    related(Relations { limit: Some(limit), ..Relations::default() })
}

fn lease(until: i64) -> Lease {
    Lease { owner: ProcessId::from_uuid(Uuid::nil()), token: 1, until: at(until) }
}

fn pause() -> Pause {
    Pause { by: "ada".into(), reason: "a move".into(), at: at(90), until: Some(at(500)) }
}

fn job(paused: Option<Pause>) -> JobRecord {
    let job = Job::new("nightly", Schedule::cron("0 2 * * *", "UTC").unwrap()).unwrap();
    JobRecord {
        declared: job.clone(),
        configured: None,
        overrides: Overrides::default(),
        job,
        origin: Origin::Declared,
        app: String::new(),
        release: 0,
        cursor: None,
        last_nominal: None,
        runs: 0,
        paused,
        retired: None,
        created_at: at(0),
        updated_at: at(0),
        version: 1,
    }
}

fn process(queue: &str, topic: Option<&str>) -> KnownProcess {
    let topics = topic.map(|topic| vec![Topic::new(topic).unwrap()]);
    KnownProcess { queues: vec![Queue::new(queue).unwrap()], topics }
}

fn serving() -> Vec<KnownProcess> {
    vec![process("post", Some("mail"))]
}

/// A process that works on no queue.
static IDLE: KnownProcess = KnownProcess { queues: Vec::new(), topics: None };

fn facts<'a>(record: &'a MessageRecord, others: &'a [KnownProcess]) -> WhyFacts<'a> {
    WhyFacts {
        now: at(200),
        record,
        job: None,
        running: RunningCounts::default(),
        batch_alive: 0,
        paused: None,
        paused_here: false,
        others,
        this: &IDLE,
        circuit: None,
        last: None,
    }
}

/// Returns the facts with numbers of running messages of the job, of the limit and in other processes.
fn running<'a>(facts: &WhyFacts<'a>, (job, limit, elsewhere): (u64, u64, u64)) -> WhyFacts<'a> {
    WhyFacts { running: RunningCounts { job, limit, elsewhere }, ..facts.clone() }
}

#[track_caller]
fn assert_why(facts: &WhyFacts<'_>, word: &str, part: &str) {
    let why = facts.why();
    assert_eq!(why.word, word, "{}", why.sentence);
    assert!(why.sentence.contains(part), "{:?} has no {part:?}", why.sentence);
}

#[test]
fn finished_messages_report_how_they_ended() {
    let ended = MessageRecord { ended_at: Some(at(150)), ..record(message()) };
    for (state, word) in [(MessageState::Done, "done"), (MessageState::Cancelled, "cancelled")] {
        let record = MessageRecord { state, ..ended.clone() };
        assert_why(&facts(&record, &[]), word, "1970-01-01T00:02:30Z");
    }
    let error: Option<Arc<str>> = Some("no such order".into());
    let dead = Some(DeadReason::AttemptsSpent);
    let record = MessageRecord { state: MessageState::Dead, dead, error, ..ended };
    assert_why(&facts(&record, &[]), "dead", "(attempts spent): no such order");
}

#[test]
fn a_running_message_names_its_process_and_a_stale_one_is_reported() {
    let running = MessageRecord {
        state: MessageState::Running,
        attempt: 2,
        lease: Some(lease(200)),
        ..record(message())
    };
    assert_why(&facts(&running, &[]), "running", "attempt 2");
    let stale = MessageRecord { lease: Some(lease(199)), ..running.clone() };
    assert_why(&facts(&stale, &[]), "stale", "takes the message over");
    let progress = Progress { percent: Some(40), note: Some("page 4".into()), at: at(150) };
    let cancelled = MessageRecord { cancel_requested: true, progress: Some(progress), ..running };
    let details = facts(&cancelled, &[]).why().details;
    assert!(details[0].contains("asked to stop"), "{details:?}");
    assert!(details[1].contains("40 %, page 4"), "{details:?}");
}

#[test]
fn a_message_not_due_names_its_instant() {
    let later = MessageRecord { due_at: at(300), ..record(message()) };
    assert_why(&facts(&later, &[]), "waiting_until", "1970-01-01T00:05:00Z");
    let failed = MessageRecord { attempt: 1, error: Some("refused".into()), ..later.clone() };
    assert_why(
        &facts(&failed, &[]),
        "retrying",
        "(refused); it is tried again at 1970-01-01T00:05:00Z",
    );
    let rate = Some(Rate { count: 3, per: Duration::from_secs(60) });
    let limited = record(limited("api", None, rate));
    let turn = MessageRecord { due_at: at(300), ..limited.clone() };
    assert_why(&facts(&turn, &[]), "rate_limited", "allows 3 starts per 1m");
    let snoozed = MessageRecord { snoozes: 1, ..turn };
    assert_why(&facts(&snoozed, &[]), "waiting_until", "due at");
    let planned = record(Message { due_at: at(300), ..(*limited.message).clone() });
    assert_why(&facts(&planned, &[]), "waiting_until", "due at");
}

#[test]
fn a_message_that_waits_for_a_batch_names_it() {
    let batch = BatchId::from_uuid(Uuid::nil());
    let relations = Relations { waits_for: Some(batch), ..Relations::default() };
    let waiting = MessageRecord { due_at: END_OF_TIME, ..record(related(relations)) };
    let known = WhyFacts { batch_alive: 7, ..facts(&waiting, &[]) };
    assert_why(&known, "waits_for_batch", "of which 7 messages are unfinished");
    let pause =
        Pause { by: "ada".to_owned(), reason: "outage".to_owned(), at: at(150), until: None };
    let held = MessagePause { pause, due_at: at(300) };
    let held = MessageRecord { due_at: END_OF_TIME, paused: Some(held), ..record(message()) };
    assert_why(&facts(&held, &[]), "job_paused", "is paused by ada");
    let due = MessageRecord { due_at: at(100), ..waiting };
    assert_why(&facts(&due, &serving()), "ready", "has been due since");
}

#[test]
fn pauses_hold_due_messages() {
    let (due, pause, workers) = (record(message()), pause(), serving());
    let paused = WhyFacts { paused: Some(&pause), ..facts(&due, &workers) };
    assert_why(
        &paused,
        "queue_paused",
        "by ada since 1970-01-01T00:01:30Z until 1970-01-01T00:08:20Z: a move",
    );
    let later = MessageRecord { due_at: at(300), ..due.clone() };
    let paused = WhyFacts { paused: Some(&pause), ..facts(&later, &workers) };
    assert_why(&paused, "waiting_until", "due at");
    assert!(paused.why().details[0].contains("queue is paused"));
    let job = job(Some(pause.clone()));
    let scheduled = record(Message { source: Source::Scheduled, ..message() });
    assert_why(
        &WhyFacts { job: Some(&job), ..facts(&scheduled, &workers) },
        "job_paused",
        "by ada",
    );
    let manual = record(Message { source: Source::Manual, ..message() });
    assert_why(
        &WhyFacts { job: Some(&job), ..facts(&manual, &workers) },
        "ready",
        "has been due since",
    );
}

#[test]
fn limits_hold_due_messages() {
    let workers = serving();
    let shared = record(limited("api", Some(2), None));
    let full = running(&facts(&shared, &workers), (0, 2, 0));
    assert_why(&full, "limit_reached", "limit \"api\" are running, and it allows 2");
    assert_why(&running(&full, (0, 1, 0)), "ready", "has been due since");
    let about = limited("4:mail/ada", Some(1), None);
    let keyed = record(Message { key: Some(Key::new("ada").unwrap()), ..about });
    assert_why(&running(&facts(&keyed, &workers), (0, 1, 0)), "waits_for_key", "\"ada\"");
    let exclusive = record(Message { exclusive: true, ..message() });
    assert_why(
        &running(&facts(&exclusive, &workers), (1, 0, 0)),
        "limit_reached",
        "do not overlap",
    );
    assert_why(&facts(&exclusive, &workers), "ready", "has been due since");
}

#[test]
fn a_circuit_breaker_holds_due_messages() {
    let (due, workers) = (record(message()), serving());
    let open = Circuit::Open { until: at(400), openings: 1 };
    assert_why(
        &WhyFacts { circuit: Some(open), ..facts(&due, &workers) },
        "circuit_open",
        "00:06:40",
    );
    let half = Circuit::HalfOpen { probing_until: None, openings: 1 };
    assert_why(
        &WhyFacts { circuit: Some(half), ..facts(&due, &workers) },
        "circuit_open",
        "tried first",
    );
    let closed = Circuit::Closed { failures: 2 };
    assert_why(
        &WhyFacts { circuit: Some(closed), ..facts(&due, &workers) },
        "ready",
        "has been due since",
    );
}

#[test]
fn a_message_without_a_worker_or_handler_is_reported() {
    let due = record(message());
    assert_why(&facts(&due, &serving()), "ready", "the next free worker");
    assert_why(&facts(&due, &[]), "no_worker", "\"post\"");
    assert_why(&running(&facts(&due, &[]), (0, 0, 1)), "ready", "has been due since");
    let other = [process("other", None)];
    assert_why(&facts(&due, &other), "no_worker", "\"post\"");
    let other_topic = [process("post", Some("fax"))];
    assert_why(&facts(&due, &other_topic), "no_handler", "topic \"mail\"");
    let any = [process("post", None)];
    assert_why(&facts(&due, &any), "ready", "has been due since");
    let relay = record(Message { queue: Queue::from("~relay/nats".to_owned()), ..message() });
    assert_why(&facts(&relay, &[]), "ready", "has been due since");
}

#[test]
fn a_queue_paused_in_this_process_is_reported_unless_another_process_works_on_it() {
    let (due, this) = (record(message()), process("post", None));
    let here = WhyFacts { this: &this, ..facts(&due, &[]) };
    assert_why(&here, "ready", "the next free worker");
    let paused = WhyFacts { paused_here: true, ..here.clone() };
    assert_why(&paused, "queue_paused", "paused in this process");
    assert_why(&running(&paused, (0, 0, 1)), "ready", "has been due since");
    let others = serving();
    assert_why(&WhyFacts { others: &others, ..paused }, "ready", "has been due since");
}
