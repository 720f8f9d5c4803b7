//! A row for every word, and for what changes it.

use std::sync::Arc;
use std::time::Duration;

use punctual::Job;
use punctual::Schedule;
use punctual::model::{
    BatchId, Body, Correlation, DeadReason, Headers, Key, Lease, Message, MessageId, Origin,
    Overrides, Priority, ProcessId, Progress, Queue, Rate, Relations, Topic,
};
use punctual::uuid::Uuid;

use super::*;

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
    }
}

fn record(message: Message) -> MessageRecord {
    MessageRecord::new(Arc::new(message))
}

fn tied(relations: Relations) -> Message {
    Message { relations: Some(Arc::new(relations)), ..message() }
}

fn limited(name: &str, running_max: Option<u32>, rate: Option<Rate>) -> Message {
    let limit = Limit { name: Key::written(name), running_max, rate };
    tied(Relations { limit: Some(limit), ..Relations::default() })
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

fn serving() -> Vec<Worker> {
    vec![Worker { queues: vec!["post".into()], topics: Some(vec!["mail".into()]) }]
}

fn facts<'a>(record: &'a MessageRecord, workers: &'a [Worker]) -> Facts<'a> {
    Facts {
        now: at(200),
        record,
        job: None,
        job_running: 0,
        paused: None,
        limit_running: 0,
        batch_alive: 0,
        workers,
        queue_running: false,
        circuit: None,
        last: None,
    }
}

#[track_caller]
fn says(facts: &Facts<'_>, word: &str, part: &str) {
    let why = facts.why();
    assert_eq!(why.word, word, "{}", why.sentence);
    assert!(why.sentence.contains(part), "{:?} has no {part:?}", why.sentence);
}

#[test]
fn finished_messages_say_how_they_ended() {
    let ended = MessageRecord { ended_at: Some(at(150)), ..record(message()) };
    for (state, word) in [(MessageState::Done, "done"), (MessageState::Cancelled, "cancelled")] {
        let record = MessageRecord { state, ..ended.clone() };
        says(&facts(&record, &[]), word, "1970-01-01T00:02:30Z");
    }
    let error: Option<Arc<str>> = Some("no such order".into());
    let dead = Some(DeadReason::AttemptsSpent);
    let record = MessageRecord { state: MessageState::Dead, dead, error, ..ended };
    says(&facts(&record, &[]), "dead", "(attempts spent): no such order");
}

#[test]
fn a_running_message_names_its_process_and_a_stale_one_says_so() {
    let running = MessageRecord {
        state: MessageState::Running,
        attempt: 2,
        lease: Some(lease(200)),
        ..record(message())
    };
    says(&facts(&running, &[]), "running", "attempt 2");
    let stale = MessageRecord { lease: Some(lease(199)), ..running.clone() };
    says(&facts(&stale, &[]), "stale", "takes it over");
    let progress = Progress { percent: Some(40), note: Some("page 4".into()), at: at(150) };
    let asked = MessageRecord { cancel_requested: true, progress: Some(progress), ..running };
    let details = facts(&asked, &[]).why().details;
    assert!(details[0].contains("asked to stop"), "{details:?}");
    assert!(details[1].contains("40 %, page 4"), "{details:?}");
}

#[test]
fn what_is_not_due_says_until_when() {
    let later = MessageRecord { due_at: at(300), ..record(message()) };
    says(&facts(&later, &[]), "waiting_until", "1970-01-01T00:05:00Z");
    let failed = MessageRecord { attempt: 1, error: Some("refused".into()), ..later.clone() };
    says(&facts(&failed, &[]), "retrying", "(refused); it is tried again at 1970-01-01T00:05:00Z");
    let rate = Some(Rate { count: 3, per: Duration::from_secs(60) });
    let limited = record(limited("api", None, rate));
    let turn = MessageRecord { due_at: at(300), ..limited.clone() };
    says(&facts(&turn, &[]), "rate_limited", "Only 3 may start in 1m");
    let snoozed = MessageRecord { snoozes: 1, ..turn };
    says(&facts(&snoozed, &[]), "waiting_until", "due at");
    let planned = record(Message { due_at: at(300), ..(*limited.message).clone() });
    says(&facts(&planned, &[]), "waiting_until", "due at");
}

#[test]
fn what_waits_for_a_batch_says_which() {
    let batch = BatchId::from_uuid(Uuid::nil());
    let relations = Relations { waits_for: Some(batch), ..Relations::default() };
    let waiting = MessageRecord { due_at: END_OF_TIME, ..record(tied(relations)) };
    let known = Facts { batch_alive: 7, ..facts(&waiting, &[]) };
    says(&known, "waits_for_batch", "of which 7 are left");
    let pause = punctual::model::Pause {
        by: "ada".to_owned(),
        reason: "outage".to_owned(),
        at: at(150),
        until: None,
    };
    let held = punctual::model::MessagePause { pause, due_at: at(300) };
    let held = MessageRecord { due_at: END_OF_TIME, paused: Some(held), ..record(message()) };
    says(&facts(&held, &[]), "job_paused", "is paused by ada");
    let due = MessageRecord { due_at: at(100), ..waiting };
    says(&facts(&due, &serving()), "ready", "due since");
}

#[test]
fn pauses_hold_what_is_due() {
    let (due, pause, workers) = (record(message()), pause(), serving());
    let paused = Facts { paused: Some(&pause), ..facts(&due, &workers) };
    says(
        &paused,
        "queue_paused",
        "by ada since 1970-01-01T00:01:30Z until 1970-01-01T00:08:20Z: a move",
    );
    let later = MessageRecord { due_at: at(300), ..due.clone() };
    let paused = Facts { paused: Some(&pause), ..facts(&later, &workers) };
    says(&paused, "waiting_until", "due at");
    assert!(paused.why().details[0].contains("queue is paused"));
    let job = job(Some(pause.clone()));
    let scheduled = record(Message { source: Source::Scheduled, ..message() });
    says(&Facts { job: Some(&job), ..facts(&scheduled, &workers) }, "job_paused", "by ada");
    let manual = record(Message { source: Source::Manual, ..message() });
    says(&Facts { job: Some(&job), ..facts(&manual, &workers) }, "ready", "due since");
}

#[test]
fn limits_hold_what_is_due() {
    let workers = serving();
    let shared = record(limited("api", Some(2), None));
    let full = Facts { limit_running: 2, ..facts(&shared, &workers) };
    says(&full, "limit_reached", "limit \"api\", which lets 2 run");
    says(&Facts { limit_running: 1, ..full.clone() }, "ready", "due since");
    let about = limited("4:mail/ada", Some(1), None);
    let keyed = record(Message { key: Some(Key::new("ada").unwrap()), ..about });
    says(&Facts { limit_running: 1, ..facts(&keyed, &workers) }, "waits_for_key", "\"ada\"");
    let exclusive = record(Message { exclusive: true, ..message() });
    says(
        &Facts { job_running: 1, ..facts(&exclusive, &workers) },
        "limit_reached",
        "one at a time",
    );
    says(&facts(&exclusive, &workers), "ready", "due since");
}

#[test]
fn a_circuit_holds_what_is_due() {
    let (due, workers) = (record(message()), serving());
    let open = Circuit::Open { until: at(400), openings: 1 };
    says(&Facts { circuit: Some(open), ..facts(&due, &workers) }, "circuit_open", "00:06:40");
    let half = Circuit::HalfOpen { probing_until: None, openings: 1 };
    says(&Facts { circuit: Some(half), ..facts(&due, &workers) }, "circuit_open", "tried first");
    let closed = Circuit::Closed { failures: 2 };
    says(&Facts { circuit: Some(closed), ..facts(&due, &workers) }, "ready", "due since");
}

#[test]
fn whoever_could_take_it_is_looked_for() {
    let due = record(message());
    says(&facts(&due, &serving()), "ready", "the next worker");
    says(&facts(&due, &[]), "no_worker", "\"post\"");
    says(&Facts { queue_running: true, ..facts(&due, &[]) }, "ready", "due since");
    let other = [Worker { queues: vec!["other".into()], topics: None }];
    says(&facts(&due, &other), "no_worker", "\"post\"");
    let deaf = [Worker { queues: vec!["post".into()], topics: Some(vec!["fax".into()]) }];
    says(&facts(&due, &deaf), "no_handler", "topic \"mail\"");
    let any = [Worker { queues: vec!["post".into()], topics: None }];
    says(&facts(&due, &any), "ready", "due since");
    let relay = record(Message { queue: Queue::from("~relay/nats".to_owned()), ..message() });
    says(&facts(&relay, &[]), "ready", "due since");
}
