//! Bad input: every value that can never work is refused where it is passed, by name, and nothing is
//! stored or started.

use punctual::builtin::memory_transport;
use punctual::inspect::{MessageFilter, PageRequest};
use punctual::model::{BackOffKind, Body, HandlerOptions, ProcessId};
use punctual::{
    Builder, Context, Error, ErrorKind, Inspect, Job, Misfire, Occurrence, Overlap, Punctual, Retry,
};
use std::sync::Arc;
use std::time::Duration;

use crate::harness::{Bench, Log, instant, seconds, world};
use crate::test_handlers::never_returning;

/// Returns the error of `build`.
fn refused(build: impl FnOnce(Builder) -> Builder) -> Error {
    let (clock, storage) = world();
    let builder = Punctual::builder().clock(clock).storage(storage);
    match build(builder).build() {
        Ok(_) => panic!("it was built"),
        Err(error) => error,
    }
}

async fn quiet((): (), _: Context) {}

#[track_caller]
fn assert_error(error: &Error, kind: ErrorKind, words: &[&str]) {
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "{error} does not say {word}");
    }
}

async fn nothing_is_stored(bench: &Bench) {
    let stored =
        bench.storage.messages(MessageFilter::default(), PageRequest::first(9)).await.unwrap();
    assert!(stored.rows.is_empty());
}

#[tokio::test]
async fn a_payload_over_the_limit_is_refused() {
    let bench = Bench::start(|builder| builder.options(|options| options.payload_max = 100)).await;
    let publisher = bench.punctual.publisher();
    publisher.publish("mail", &"x".repeat(98)).after(seconds(1)).await.unwrap();
    let error = publisher.publish("mail", &"x".repeat(99)).await.unwrap_err();
    assert_error(&error, ErrorKind::Invalid, &["101 bytes", "at most 100"]);
    let raw = Body::raw(vec![0; 101], "application/octet-stream");
    let error = publisher.publish_body("mail", raw).await.unwrap_err();
    assert_error(&error, ErrorKind::Invalid, &["101 bytes"]);
    let error = bench.punctual.jobs().once("mail").payload(&"x".repeat(99)).await.unwrap_err();
    assert_error(&error, ErrorKind::Invalid, &["101 bytes"]);
    let many = vec![publisher.publish("mail", &1), publisher.publish("mail", &"x".repeat(99))];
    assert!(publisher.publish_all(many).await.is_err());
    let stored =
        bench.storage.messages(MessageFilter::default(), PageRequest::first(9)).await.unwrap();
    assert_eq!(stored.rows.len(), 1, "all or nothing");
}

#[test]
fn a_job_s_payload_over_the_limit_is_refused() {
    let error = refused(|builder| {
        builder
            .options(|options| options.payload_max = 100)
            .declare(Job::cron("big", "0 8 * * *").payload(&"x".repeat(99)))
    });
    assert_error(&error, ErrorKind::Invalid, &["\"big\"", "101 bytes"]);
}

/// Names that can never work, each with a word that explains why.
fn bad_names() -> [(String, &'static str); 5] {
    [
        (String::new(), "empty"),
        (" \t ".to_owned(), "empty"),
        ("n".repeat(201), "201 characters"),
        ("two\nlines".to_owned(), "position 4"),
        ("~ours".to_owned(), "which is reserved"),
    ]
}

// spec: T-53, T-68
#[tokio::test]
async fn names_that_are_empty_too_long_unprintable_or_reserved_are_always_refused() {
    let bench = Bench::start(|builder| builder).await;
    let (publisher, jobs) = (bench.punctual.publisher(), bench.punctual.jobs());
    let admin = bench.punctual.admin();
    for (name, why) in bad_names() {
        let answers = [
            publisher.publish(&name, &()).await.map(|_| ()),
            publisher.publish("mail", &()).key(&name).await.map(|_| ()),
            publisher.publish("mail", &()).unique(&name).await.map(|_| ()),
            publisher.publish("mail", &()).queue(&name).await.map(|_| ()),
            publisher.publish("mail", &()).via(&name).await.map(|_| ()),
            jobs.once(&name).await.map(|_| ()),
            jobs.once("mail").key(&name).await.map(|_| ()),
            jobs.cancel(&name, "key").await.map(|_| ()),
            jobs.cancel("mail", &name).await.map(|_| ()),
            admin.job(&name).await.map(|_| ()),
            admin.trigger(&name, false).await.map(|_| ()),
        ];
        for result in answers {
            assert_error(&result.unwrap_err(), ErrorKind::Invalid, &[why]);
        }
    }
    nothing_is_stored(&bench).await;
    let longest = "n".repeat(200);
    publisher.publish(&longest, &()).key(&longest).queue(&longest).await.unwrap();
    jobs.once(&longest).key(&longest).after(seconds(60)).await.unwrap();
}

#[test]
fn names_are_checked_when_a_process_is_built() {
    for (name, why) in bad_names() {
        let builds: [Box<dyn FnOnce(Builder) -> Builder>; 6] = [
            Box::new(|builder| builder.handler(&*name, quiet)),
            Box::new(|builder| builder.declare(Job::cron(&*name, "0 8 * * *"))),
            Box::new(|builder| builder.declare(Job::cron("job", "0 8 * * *").queue(&name))),
            Box::new(|builder| builder.declare(Job::cron("job", "0 8 * * *").topic(&name))),
            Box::new(|builder| builder.queue(&*name, 1)),
            Box::new(|builder| builder.cron_override(&*name, "0 8 * * *")),
        ];
        for build in builds {
            assert_error(&refused(build), ErrorKind::Invalid, &[why]);
        }
    }
}

#[tokio::test]
async fn headers_with_control_characters_are_refused() {
    let bench = Bench::start(|builder| builder).await;
    let publisher = bench.punctual.publisher();
    for (name, value) in [("tenant", "a\r\nb"), ("ten\nant", "a"), ("", "a"), ("tenant", "\0")] {
        let error = publisher.publish("mail", &()).header(name, value).await.unwrap_err();
        assert_error(&error, ErrorKind::Invalid, &["header"]);
    }
    let error = publisher.publish("mail", &()).header("big", "x".repeat(9_000)).await.unwrap_err();
    assert_error(&error, ErrorKind::Invalid, &["9000 bytes"]);
    let many = (0..65).fold(publisher.publish("mail", &()), |publish, index| {
        publish.header(format!("h{index}"), "v")
    });
    assert_error(&many.await.unwrap_err(), ErrorKind::Invalid, &["one too many"]);
    let reserved = publisher.publish("mail", &()).header("punctual-attempt", "99");
    assert_error(&reserved.await.unwrap_err(), ErrorKind::Invalid, &["which is reserved"]);
    nothing_is_stored(&bench).await;
}

#[tokio::test]
async fn delays_beyond_the_end_of_time_are_refused() {
    let bench = Bench::start(|builder| builder).await;
    let publisher = bench.punctual.publisher();
    for wait in [Duration::from_secs(9_000 * 365 * 86_400), Duration::MAX] {
        let error = publisher.publish("mail", &()).after(wait).await.unwrap_err();
        assert_error(&error, ErrorKind::Invalid, &["9999"]);
        let error = bench.punctual.jobs().once("mail").after(wait).await.unwrap_err();
        assert_error(&error, ErrorKind::Invalid, &["9999"]);
    }
    nothing_is_stored(&bench).await;
    let sent = publisher.publish("mail", &()).at(instant("9999-01-01T00:00:00Z")).await.unwrap();
    assert_eq!(bench.message(sent.id).await.due_at, instant("9999-01-01T00:00:00Z"));
}

#[tokio::test]
async fn priorities_and_options_that_cannot_work_are_refused() {
    let bench = Bench::start(|builder| builder).await;
    let publisher = bench.punctual.publisher();
    let error = publisher.publish("mail", &()).priority(10).await.unwrap_err();
    assert_error(&error, ErrorKind::Invalid, &["10"]);
    let backoff = BackOffKind::Exponential {
        first: seconds(1),
        factor: f64::NAN,
        cap: seconds(60),
        jitter: 0.0,
    };
    let retry = Retry { attempts_max: Some(3), backoff };
    let handler_options = HandlerOptions::new().retry(retry.clone());
    let error =
        publisher.publish("mail", &()).handler_options(handler_options.clone()).await.unwrap_err();
    assert_error(&error, ErrorKind::Invalid, &["factor"]);
    let error = bench.punctual.jobs().once("mail").retry(retry.clone()).await.unwrap_err();
    assert_error(&error, ErrorKind::Invalid, &["factor"]);
    nothing_is_stored(&bench).await;
    assert_error(
        &refused(|builder| builder.handler_with("mail", handler_options, quiet)),
        ErrorKind::Invalid,
        &["factor"],
    );
    let error = refused(|builder| builder.declare(Job::cron("job", "0 8 * * *").retry(retry)));
    assert_error(&error, ErrorKind::Invalid, &["\"job\"", "factor"]);
}

// spec: T-54, U-4
#[test]
fn a_schedule_that_cannot_be_read_names_its_job() {
    for expression in
        ["", "every day", "61 * * * *", "* * * *", "* * * * * * *", "0 0 31 2", &"*/".repeat(5_000)]
    {
        let error = refused(|builder| builder.declare(Job::cron("nightly", expression)));
        assert_error(&error, ErrorKind::Invalid, &["\"nightly\""]);
        assert!(
            error.to_string().len() < 1_000,
            "an error is for people: {}",
            error.to_string().len()
        );
    }
    let error =
        refused(|builder| builder.declare(Job::cron("nightly", "0 2 * * *").zone("Mars/Olympus")));
    assert_error(&error, ErrorKind::Invalid, &["\"nightly\"", "Mars/Olympus"]);
    let error = refused(|builder| builder.declare(Job::every("often", Duration::ZERO)));
    assert_error(&error, ErrorKind::Invalid, &["\"often\""]);
    let error = refused(|builder| builder.declare(Job::every("rarely", Duration::MAX)));
    assert_error(&error, ErrorKind::Invalid, &["\"rarely\""]);
}

#[test]
fn policies_that_can_never_run_anything_are_refused() {
    let never = Overlap::Allow { parallel_max: Some(0) };
    let error = refused(|builder| builder.declare(Job::cron("job", "0 8 * * *").overlap(never)));
    assert_error(&error, ErrorKind::Invalid, &["\"job\"", "allow(0)"]);
    let nothing = Misfire::fire_all().catch_up_max(0);
    let error = refused(|builder| builder.declare(Job::cron("job", "0 8 * * *").misfire(nothing)));
    assert_error(&error, ErrorKind::Invalid, &["\"job\"", "catch_up_max"]);
}

#[test]
fn two_jobs_of_one_name_are_refused_in_any_case() {
    let error = refused(|builder| {
        builder
            .declare(Job::cron("nightly", "0 2 * * *"))
            .declare(Job::cron("Nightly", "0 3 * * *"))
    });
    assert_error(&error, ErrorKind::Conflict, &["\"Nightly\"", "declared twice"]);
}

#[test]
fn two_handlers_of_one_topic_are_refused() {
    let error = refused(|builder| builder.handler("mail", quiet).handler("mail", quiet));
    assert_error(&error, ErrorKind::Conflict, &["\"mail\"", "two handlers"]);
    let error = refused(|builder| {
        let log = Log::default();
        builder
            .handler("mail", quiet)
            .job(Job::cron("mail", "0 8 * * *"), never_returning::<Occurrence>(&log))
    });
    assert_error(&error, ErrorKind::Conflict, &["\"mail\""]);
}

#[test]
fn a_subscription_needs_its_transport_and_its_handler() {
    let post = || {
        let owner = ProcessId::from_uuid(punctual::uuid::Uuid::nil());
        Arc::new(memory_transport(world().0, owner))
    };
    let error =
        refused(|builder| builder.handler("mail", quiet).subscribe("post", "mail", "office"));
    assert_error(&error, ErrorKind::Invalid, &["\"post\"", "\"mail\""]);
    let error =
        refused(|builder| builder.transport("post", post()).subscribe("post", "mail", "office"));
    assert_error(&error, ErrorKind::Invalid, &["\"mail\"", "no handler"]);
    let error = refused(|builder| builder.transport("post", post()).transport("post", post()));
    assert_error(&error, ErrorKind::Conflict, &["\"post\""]);
}

#[test]
fn a_subscription_needs_a_group_that_can_be_named() {
    for group in ["", "two\nlines", &"g".repeat(201)] {
        let owner = ProcessId::from_uuid(punctual::uuid::Uuid::nil());
        let post = Arc::new(memory_transport(world().0, owner));
        let error = refused(|builder| {
            let builder = builder.transport("post", post).handler("mail", quiet);
            builder.subscribe("post", "mail", group)
        });
        assert_error(&error, ErrorKind::Invalid, &["\"mail\"", "group"]);
    }
}

#[test]
fn numbers_that_cannot_work_are_refused_by_name() {
    let error = refused(|builder| builder.queue("mail", 0));
    assert_error(&error, ErrorKind::Invalid, &["\"mail\"", "concurrency 0"]);
    let error = refused(|builder| builder.queue("mail", 1).queue("mail", 2));
    assert_error(&error, ErrorKind::Conflict, &["\"mail\"", "twice"]);
    let error = refused(|builder| builder.options(|options| options.concurrency = 0));
    assert_error(&error, ErrorKind::Invalid, &["concurrency"]);
    let error = refused(|builder| builder.options(|options| options.timeout = Some(seconds(0))));
    assert_error(&error, ErrorKind::Invalid, &["timeout"]);
    let error = refused(|builder| builder.options(|options| options.lease_duration = seconds(0)));
    assert_error(&error, ErrorKind::Invalid, &["lease_duration"]);
}

// spec: U-29
#[test]
fn a_job_without_a_storage_is_refused() {
    let error =
        refused(|builder| builder.without_storage().declare(Job::cron("nightly", "0 2 * * *")));
    assert_error(&error, ErrorKind::Invalid, &["\"nightly\"", "needs a storage"]);
}
