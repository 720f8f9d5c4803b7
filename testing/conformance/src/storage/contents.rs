//! Contents of messages: claims and reads return every field exactly as it was enqueued.

use std::collections::BTreeSet;
use std::sync::Arc;

use punctual::backend::policy::{AgainReason, Verdict};
use punctual::backend::storage::{
    Claim, ClaimedMessage, Command, CommandResult, EnqueueResult, SettleResult,
};
use punctual::inspect::JobFilter;
use punctual::model::{
    Body, Correlation, ExecutionId, HEADER_VALUE_MAX, HandlerOptions, Headers, IdSource, JobName,
    Key, Message, MisfireFacts, MisfirePolicy, NAME_LEN_MAX, Occurrence, PAYLOAD_MAX_DEFAULT,
    Priority, Queue, Rescue, Retry, Source, Topic,
};

use super::Fixture;
use super::fixture::{at, ids_of, key};

behaviours! {
    every_field_of_a_message_reads_back,
    bodies_are_bytes_of_any_kind_and_length,
    headers_and_correlation_hold_any_text,
    names_have_two_hundred_characters_of_any_script,
    names_that_look_alike_are_different_names,
    an_error_text_may_contain_any_characters,
    every_priority_and_source_reads_back,
}

/// Returns a message with every field set.
fn full(f: &Fixture) -> Message {
    let job = JobName::new("nightly report").unwrap();
    let misfire = MisfireFacts {
        policy: MisfirePolicy::FireAll,
        misfired_from: at(-7_200),
        missed_count: 3,
        missed_more: true,
        detected_at: at(-1),
        delay_ms: 7_199_000,
        index: 2,
    };
    let schedule = Some("0 2 * * *".to_owned());
    let occurrence =
        Occurrence { job: job.clone(), nominal: at(-7_200), schedule, misfire: Some(misfire) };
    let mut headers = Headers::new();
    headers.insert("tenant", "acme").unwrap();
    Message {
        topic: Topic::new("report").unwrap(),
        priority: Priority::new(7).unwrap(),
        due_at: at(-1),
        created_at: at(-9),
        source: Source::Scheduled,
        key: Some(key("customer 7")),
        dedupe: Some(Occurrence::identity(&job, at(-7_200))),
        exclusive: true,
        body: Body::json(&["a", "b"]).unwrap(),
        headers,
        correlation: Correlation {
            id: Some(Arc::from("story")),
            causation: Some(ExecutionId::from_uuid(f.ids.next(at(0)))),
            sequence: 4,
        },
        occurrence: Some(occurrence),
        handler_options: Some(Arc::new(
            HandlerOptions::new().retry(Retry::proportional()).rescue(Rescue::AsFailure),
        )),
        ..f.message()
    }
}

/// Enqueues a message and asserts that reading and claiming it return it unchanged.
async fn assert_round_trip(f: &Fixture, message: Message) -> ClaimedMessage {
    let queue = message.queue.clone();
    let id = f.enqueue(message.clone()).await;
    assert_eq!(*f.record(id).await.message, message);
    let claim = Claim::new(queue, f.process(), 1, at(60));
    let claimed = f.storage.claim(claim, at(0)).await.unwrap();
    assert_eq!(ids_of(&claimed), [id]);
    assert_eq!(*claimed[0].message, message);
    claimed.into_iter().next().unwrap()
}

// spec: U-7, T-51
pub async fn every_field_of_a_message_reads_back(f: Fixture) {
    let claimed = assert_round_trip(&f, full(&f)).await;
    assert_eq!((claimed.due_at, claimed.attempt, claimed.crashes), (at(-1), 1, 0));
    assert_eq!(f.another_node().await.record(claimed.message.id).await.message, claimed.message);
}

pub async fn bodies_are_bytes_of_any_kind_and_length(f: Fixture) {
    let every_byte: Vec<u8> = (0..=u8::MAX).collect();
    let largest: Vec<u8> = (0..=250).cycle().take(PAYLOAD_MAX_DEFAULT).collect();
    let bodies = [
        Body::empty(),
        Body::raw("", "text/plain"),
        Body::raw("\0", "application/octet-stream"),
        Body::raw(every_byte, "application/octet-stream"),
        Body::raw(r#"{"not json":'"#, "application/json; charset=utf-8"),
        Body::raw(largest, "application/x-anything"),
    ];
    for body in bodies {
        assert_round_trip(&f, Message { body, ..f.message() }).await;
    }
}

pub async fn headers_and_correlation_hold_any_text(f: Fixture) {
    let odd = [
        "'; drop table messages; --",
        r#""quoted" \backslash\ %s $1 ? {} :name"#,
        "zażółć gęślą jaźń, 日本語, עברית, 🦀🏳️‍🌈",
        "\u{200b}invisible\u{202e}turned round\u{feff}",
        " spaces kept ",
        "",
    ];
    let mut headers = Headers::new();
    for (index, text) in odd.into_iter().enumerate() {
        headers.insert(format!("{text}{index}"), text).unwrap();
    }
    headers.insert("long", "ż".repeat(HEADER_VALUE_MAX / 2)).unwrap();
    let correlation = Some(Arc::from(odd.concat()));
    let correlation = Correlation { id: correlation, ..Correlation::default() };
    assert_round_trip(&f, Message { headers, correlation, ..f.message() }).await;
}

// spec: T-50, T-51
pub async fn names_have_two_hundred_characters_of_any_script(f: Fixture) {
    for letter in ["x", "ß", "語", "🦀", "'", "%", "\\"] {
        let name = letter.repeat(NAME_LEN_MAX);
        let topic = Topic::new(&name).unwrap();
        let job = JobName::new(&name).unwrap();
        let message = Message {
            queue: Queue::of_group(&topic, &name),
            topic: topic.clone(),
            key: Some(key(&name)),
            dedupe: Some(Occurrence::identity(&job, at(0))),
            occurrence: Some(Occurrence { job, nominal: at(0), schedule: None, misfire: None }),
            ..f.message()
        };
        let twin = Message { id: f.message().id, ..message.clone() };
        let claimed = assert_round_trip(&f, message).await;
        assert_eq!(f.try_enqueue(twin).await, EnqueueResult::Duplicate(claimed.message.id));
        assert_eq!(f.settle(&claimed, Verdict::Done, at(1)).await, SettleResult::Applied);
        assert_eq!(f.history(claimed.message.id).await[0].topic, topic);
    }
}

/// Letters of another case and another Unicode composition of a letter make another name.
pub async fn names_that_look_alike_are_different_names(f: Fixture) {
    let alike = ["mail", "Mail", "MAIL", "ma\u{131}l", "é", "e\u{301}", "a_b", "a%b", "axb"];
    let mut ids = BTreeSet::new();
    for name in alike {
        let topic = Topic::new(name).unwrap();
        let job = JobName::new(name).unwrap();
        let occurrence = Occurrence { job, nominal: at(0), schedule: None, misfire: None };
        let occurrence = Some(occurrence);
        let message = Message { topic, occurrence, key: Some(key("7")), ..f.deduplicated(name) };
        assert!(ids.insert(f.enqueue(message).await), "{name} was confused with another name");
        f.declare(Fixture::job(name, Some(at(60)))).await;
    }
    let jobs = f.inspect.jobs(JobFilter::default()).await.unwrap();
    let mut names: Vec<&str> = jobs.iter().map(|record| record.job.name.as_str()).collect();
    names.sort_unstable();
    let mut expected = alike;
    expected.sort_unstable();
    assert_eq!(names, expected);
    for name in alike {
        let topic = Topic::new(name).unwrap();
        let command = Command::CancelKey { topic, key: key("7") };
        assert_eq!(f.command(command).await, CommandResult::Applied(1), "only {name} itself");
    }
}

/// An error text may come from any library. Characters that a database cannot store may be replaced, never refused.
pub async fn an_error_text_may_contain_any_characters(f: Fixture) {
    let words = "no route to 'host' \\ \"quoted\"\n\tline two: 日本語 🦀";
    let with_nul = "before\0after";
    for text in [words, with_nul] {
        let id = f.enqueue(f.message()).await;
        let claimed = f.claim_one(at(0)).await;
        let error: Option<Arc<str>> = Some(Arc::from(text));
        let why = AgainReason::Retry;
        let again = Verdict::Again {
            due_at: at(900),
            attempt: 1,
            crashes: 0,
            snoozes: 0,
            error: error.clone(),
            why,
        };
        let mut execution = f.execution(&claimed, at(1));
        execution.note = error;
        let result = f.settle_with(&claimed, again, execution).await;
        assert_eq!(result, SettleResult::Applied);
        let (kept, history) = (f.record(id).await.error.unwrap(), f.history(id).await);
        let replaced = text.replace('\0', "\u{fffd}");
        for kept in [&kept, history[0].note.as_ref().unwrap()] {
            assert!(**kept == *text || **kept == *replaced, "{kept:?}");
        }
    }
}

pub async fn every_priority_and_source_reads_back(f: Fixture) {
    let sources =
        [Source::Scheduled, Source::Manual, Source::Deferred, Source::Published, Source::Redriven];
    for (level, source) in (0..=9).zip(sources.into_iter().cycle()) {
        let priority = Priority::new(level).unwrap();
        let key = Some(Key::new(level.to_string()).unwrap());
        assert_round_trip(&f, Message { priority, source, key, ..f.message() }).await;
    }
}
