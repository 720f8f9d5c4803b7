//! Extractors: which arguments a handler may take, in which order, and what happens to an attempt whose argument
//! is missing.

use punctual::model::{Ending, ExecutionId, Headers, JobName, Key, MessageId, Source, Topic};
use punctual::policy::AttemptEnd;
use punctual::testing::HandlerTest;
use punctual::{
    CancelCause, Cancellation, Context, Handler, HandlerResult, Job, Occurrence, Outcome,
    Publisher, Retry, State, blocking,
};

use crate::harness::{Bench, Log, seconds};
use crate::test_handlers::{endings, history, retrying};

/// Log that the handlers of a test share.
#[derive(Clone, Default)]
struct SharedLog(Log);

async fn nothing() {}

async fn only_context(context: Context) -> Outcome {
    assert_eq!(context.attempt(), 1);
    Outcome::Done
}

async fn only_state(State(SharedLog(log)): State<SharedLog>) {
    log.push("only state");
}

async fn payload_alone(number: u32) -> Result<(), std::num::TryFromIntError> {
    u8::try_from(number).map(|_| ())
}

#[allow(clippy::too_many_arguments)] // the maximum of a handler
async fn eight_extractors(
    number: u32,
    context: Context,
    State(seen): State<SharedLog>,
    publisher: Publisher,
    message: MessageId,
    execution: ExecutionId,
    headers: Headers,
    key: Option<Key>,
    topic: Topic,
) -> Result<Outcome, punctual::Error> {
    assert_eq!((context.message_id(), context.execution_id()), (message, execution));
    assert_eq!(context.topic(), &topic);
    publisher.publish("only-state", &()).await?;
    let tenant = headers.get("tenant").unwrap_or("nobody").to_owned();
    seen.0.push(format!("{number} {tenant} {}", key.unwrap().as_str()));
    Ok(Outcome::Done)
}

// spec: U-2, T-7
#[tokio::test]
async fn a_handler_is_a_function_of_its_payload_and_up_to_eight_extractors() {
    let seen = SharedLog::default();
    let bench = Bench::start(|builder| {
        builder
            .state(seen.clone())
            .handler("nothing", nothing)
            .handler("only-context", only_context)
            .handler("only-state", only_state)
            .handler_with("payload", retrying(Retry::none()), payload_alone)
            .handler("nine", eight_extractors)
            .handler("closure", |_: String| async { Outcome::Done })
    })
    .await;
    let publisher = bench.punctual.publisher();
    let mut sent = Vec::new();
    for topic in ["nothing", "only-context", "only-state"] {
        sent.push(publisher.publish(topic, &()).await.unwrap().id);
    }
    sent.push(publisher.publish("payload", &255).await.unwrap().id);
    sent.push(publisher.publish("closure", "text").await.unwrap().id);
    let nine = publisher.publish("nine", &7).header("tenant", "acme").key("order-7");
    sent.push(nine.await.unwrap().id);
    bench.run_until_idle().await;
    for id in sent {
        assert_eq!(endings(&bench.storage, id).await, [Ending::Succeeded]);
    }
    assert_eq!(seen.0.lines(), ["only state", "7 acme order-7", "only state"]);
    let failed = publisher.publish("payload", &256).await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(endings(&bench.storage, failed.id).await, [Ending::Failed]);
}

/// A handler without a payload does not care what the body is.
#[tokio::test]
async fn without_a_payload_no_body_is_poison() {
    let result = HandlerTest::new().payload("anything at all").run(only_context).await.unwrap();
    assert_eq!(result.report, AttemptEnd::Done);
    let result = HandlerTest::new().payload("text").run(payload_alone).await.unwrap();
    let AttemptEnd::Poison { error } = result.report else { panic!("{:?}", result.report) };
    assert!(error.contains("cannot be read as u32"), "{error}");
}

#[tokio::test]
async fn the_occurrence_is_the_payload_of_a_run_or_an_argument_behind_it() {
    async fn first(occurrence: Occurrence, State(SharedLog(log)): State<SharedLog>) {
        log.push(format!("first {}", occurrence.job));
    }
    async fn behind(
        payload: String,
        occurrence: Occurrence,
        State(SharedLog(log)): State<SharedLog>,
    ) {
        log.push(format!("{payload} behind {}", occurrence.job));
    }
    async fn perhaps(
        (): (),
        occurrence: Option<Occurrence>,
        job: Option<JobName>,
        source: Source,
        State(SharedLog(log)): State<SharedLog>,
    ) {
        assert_eq!(occurrence.map(|occurrence| occurrence.job), job);
        log.push(format!("perhaps {source:?} {job:?}"));
    }
    let seen = SharedLog::default();
    let bench = Bench::start(|builder| {
        builder
            .state(seen.clone())
            .job(Job::every("first", seconds(60)), first)
            .job(Job::every("behind", seconds(60)).payload("report").priority(1), behind)
            .job(Job::every("perhaps", seconds(60)).priority(0), perhaps)
            .handler_with("not-a-job", retrying(Retry::none()), behind)
            .queue("default", 1)
    })
    .await;
    bench.advance(seconds(60)).await;
    assert_eq!(
        seen.0.lines(),
        ["first first", "report behind behind", "perhaps Scheduled Some(\"perhaps\")"]
    );
    // A message published by hand has no occurrence, which is an error.
    let publisher = bench.punctual.publisher();
    publisher.publish("perhaps", &()).await.unwrap();
    let sent = publisher.publish("not-a-job", "text").await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(seen.0.lines()[3], "perhaps Published None");
    let note = history(&bench.storage, sent.id).await[0].note.clone().unwrap();
    assert!(
        note.contains("punctual::model::occurrence::Occurrence could not be extracted"),
        "{note}"
    );
    assert!(note.contains("take Option<Occurrence> where it may be missing"), "{note}");
}

// spec: T-12
#[tokio::test]
async fn a_key_is_an_argument_also_where_there_is_nothing_else() {
    async fn remind(key: Key, State(SharedLog(log)): State<SharedLog>) {
        log.push(key.as_str());
    }
    async fn perhaps(key: Option<Key>, State(SharedLog(log)): State<SharedLog>) {
        log.push(format!("perhaps {key:?}"));
    }
    let seen = SharedLog::default();
    let bench = Bench::start(|builder| {
        builder.state(seen.clone()).handler("remind", remind).handler("perhaps", perhaps)
    })
    .await;
    let jobs = bench.punctual.jobs();
    jobs.once("remind").key("order-7").after(seconds(60)).await.unwrap();
    jobs.once("perhaps").key("order-8").after(seconds(61)).await.unwrap();
    bench.advance(seconds(61)).await;
    assert_eq!(seen.0.lines(), ["order-7", "perhaps Some(\"order-8\")"]);
}

#[tokio::test]
async fn cancellation_is_an_argument() {
    async fn patient(cancellation: Cancellation, State(SharedLog(log)): State<SharedLog>) {
        assert!(!cancellation.is_requested());
        let cause = cancellation.cancelled().await;
        assert!(cancellation.is_requested());
        log.push(format!("{cause:?}"));
    }
    let seen = SharedLog::default();
    let bench =
        Bench::start(|builder| builder.state(seen.clone()).handler("patient", patient)).await;
    bench.punctual.publisher().publish("patient", &()).await.unwrap();
    bench.run_until_idle().await;
    crate::test_handlers::stop_within(&bench, seconds(600)).await;
    assert_eq!(seen.0.lines(), [format!("{:?}", CancelCause::Shutdown)]);
}

/// A handler type with its own state.
struct Mailer {
    sender: String,
    log: Log,
}

impl Handler<String> for Mailer {
    async fn handle(&self, to: String, context: Context) -> HandlerResult {
        self.log.push(format!("{} to {to}, attempt {}", self.sender, context.attempt()));
        Ok(Outcome::Done)
    }
}

#[tokio::test]
async fn a_type_may_be_a_handler() {
    let log = Log::default();
    let mailer = Mailer { sender: "ada".to_owned(), log: log.clone() };
    let result = HandlerTest::new().payload("bob").attempt(3).run(mailer).await.unwrap();
    assert_eq!(result.report, AttemptEnd::Done);
    assert_eq!(log.lines(), ["ada to bob, attempt 3"]);
}

#[tokio::test]
async fn a_blocking_handler_takes_the_same_arguments() {
    fn sum(numbers: Vec<u64>, State(limit): State<u64>, context: Context) -> Result<(), String> {
        let sum: u64 = numbers.iter().sum();
        context.report_success(sum.to_string());
        if sum > limit { Err(format!("{sum} is more than {limit}")) } else { Ok(()) }
    }
    let handler_test =
        |numbers: &[u64]| HandlerTest::new().state(10_u64).payload(numbers).run(blocking(sum));
    let result = handler_test(&[1, 2]).await.unwrap();
    assert_eq!((result.report.clone(), result.note()), (AttemptEnd::Done, Some("3".into())));
    let result = handler_test(&[10, 2]).await.unwrap();
    assert_eq!(result.report, AttemptEnd::Failed { error: "12 is more than 10".into() });
}
