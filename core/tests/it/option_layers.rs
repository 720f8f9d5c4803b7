//! Option layers: each field comes from the innermost layer that sets it, and setting one field keeps the others.

use std::time::Duration;

use punctual::model::{HandlerOptions, Priority};
use punctual::testing::TestHarness;
use punctual::{Builder, Job, OneTimeJob, Retry};

const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

async fn harness(change: impl FnOnce(Builder) -> Builder) -> TestHarness {
    TestHarness::start(change).await.unwrap()
}

fn failing(builder: Builder, handler_options: HandlerOptions) -> Builder {
    builder.handler_with("charge", handler_options, async |(): ()| Err::<(), _>("declined"))
}

fn no_retries() -> HandlerOptions {
    HandlerOptions::new().retry(Retry::none())
}

#[tokio::test]
async fn a_message_that_expires_keeps_the_retries_of_its_handler() {
    let harness = harness(|builder| failing(builder, no_retries())).await;
    harness.publisher().publish("charge", &()).expires_after(DAY).await.unwrap();
    harness.advance(DAY).await;
    harness.assert_executed("charge", 1);
    harness.assert_dead("charge", 1);
}

#[tokio::test]
async fn a_call_wins_over_its_handler_only_in_the_fields_it_sets() {
    let handler_options = no_retries().timeout(Duration::from_secs(5));
    let harness = harness(|builder| {
        builder.handler_with("charge", handler_options, async |(): ()| {
            std::future::pending::<()>().await;
        })
    })
    .await;
    let twice = HandlerOptions::new().retry(Retry::intervals([Duration::from_secs(60)]));
    harness
        .publisher()
        .publish("charge", &())
        .expires_after(DAY)
        .handler_options(twice)
        .await
        .unwrap();
    harness.advance(HOUR).await;
    harness.assert_executed("charge", 2);
    let endings: Vec<&str> =
        harness.executions("charge").iter().map(|one| one.ending.as_str()).collect();
    assert_eq!(endings, ["timed_out", "timed_out"], "the timeout of the handler");
}

// spec: T-42
#[tokio::test]
async fn a_one_time_job_keeps_retries_and_timeout_of_its_handler() {
    let harness = harness(|builder| {
        let handler_options = no_retries().timeout(Duration::from_secs(5));
        failing(builder, no_retries()).handler_with("wait", handler_options, async |(): ()| {
            std::future::pending::<()>().await;
        })
    })
    .await;
    harness.jobs().once("charge").after(HOUR).payload(&()).await.unwrap();
    harness.jobs().once("wait").after(HOUR).payload(&()).await.unwrap();
    harness.advance(DAY).await;
    harness.assert_executed("charge", 1);
    harness.assert_executed("wait", 1);
    assert_eq!(harness.executions("wait")[0].ending.as_str(), "timed_out");
}

#[tokio::test]
async fn a_one_time_job_has_its_own_retries_where_no_layer_sets_any() {
    let harness = harness(|builder| failing(builder, HandlerOptions::new())).await;
    harness.jobs().once("charge").after(HOUR).payload(&()).await.unwrap();
    harness.advance(DAY).await;
    harness.assert_executed("charge", 4);
}

#[tokio::test]
async fn a_job_on_a_topic_keeps_the_retries_of_its_handler_unless_it_sets_its_own() {
    let harness = harness(|builder| {
        let three = HandlerOptions::new().retry(Retry::intervals([Duration::from_secs(60); 3]));
        failing(builder, three)
            .declare(Job::every("usual", DAY).topic("charge").payload(&()))
            .declare(Job::every("once", DAY).topic("charge").payload(&()).retry(Retry::none()))
    })
    .await;
    harness.advance(DAY + HOUR).await;
    let runs = |job: &str| {
        let all = harness.executions("charge");
        all.iter().filter(|one| one.job.as_ref().is_some_and(|name| name.as_str() == job)).count()
    };
    let firings = runs("once");
    assert!(firings > 0);
    assert_eq!(runs("usual"), 4 * firings);
}

#[tokio::test]
async fn the_queue_and_the_process_set_options_that_the_inner_layers_do_not() {
    let harness = harness(|builder| {
        failing(builder, HandlerOptions::new())
            .handler_options(no_retries())
            .queue_options("patient", HandlerOptions::new().retry(Retry::intervals([HOUR])))
            .queue("patient", 1)
    })
    .await;
    harness.publisher().publish("charge", &()).await.unwrap();
    harness.advance(DAY).await;
    harness.assert_executed("charge", 1);
    harness.publisher().publish("charge", &()).queue("patient").await.unwrap();
    harness.advance(DAY).await;
    harness.assert_executed("charge", 3);
}

// spec: T-74
#[tokio::test]
async fn a_definition_sets_options_of_one_time_jobs_that_a_call_does_not_set() {
    let definition = OneTimeJob::new("charge")
        .retries_max(2)
        .timeout(Duration::from_secs(5))
        .queue("payments")
        .priority(7);
    let harness = harness(|builder| {
        failing(builder, no_retries()).one_time_job(definition).queue("payments", 1)
    })
    .await;
    let entry = harness.jobs().once("charge").after(HOUR).prepare().await.unwrap();
    assert_eq!(entry.message.queue.as_str(), "payments");
    assert_eq!(entry.message.priority, Priority::new(7).unwrap());
    let other = harness.jobs().once("charge").after(HOUR).queue("default").priority(1);
    let entry = other.prepare().await.unwrap();
    assert_eq!((entry.message.queue.as_str(), entry.message.priority.level()), ("default", 1));
    harness.jobs().once("charge").after(HOUR).key("a").payload(&()).await.unwrap();
    harness.advance(DAY).await;
    harness.assert_executed("charge", 3);
    let once = harness.jobs().once("charge").after(HOUR).key("b").payload(&());
    once.retry(Retry::none()).await.unwrap();
    harness.advance(DAY).await;
    harness.assert_executed("charge", 4);
}

#[tokio::test]
async fn a_definition_that_cannot_work_is_refused_by_its_field() {
    for (definition, field) in [
        (OneTimeJob::new("a").priority(12), "priority"),
        (OneTimeJob::new("a").queue(""), "queue"),
        (OneTimeJob::new(""), "name"),
    ] {
        let error = punctual::Punctual::builder().one_time_job(definition).build().err().unwrap();
        assert!(error.to_string().contains(field), "{error}");
    }
    let twice = punctual::Punctual::builder()
        .one_time_job(OneTimeJob::new("a"))
        .one_time_job(OneTimeJob::new("a"));
    assert!(twice.build().err().unwrap().to_string().contains("twice"));
}

#[tokio::test]
async fn a_second_limit_is_refused_in_either_order() {
    let harness = harness(|builder| failing(builder, HandlerOptions::new())).await;
    let publish = || harness.publisher().publish("charge", &()).key("ada");
    let first = publish().rate("api", 1, HOUR).one_at_a_time().await.unwrap_err();
    let second = publish().one_at_a_time().rate("api", 1, HOUR).await.unwrap_err();
    for error in [first, second] {
        assert!(error.to_string().contains("a message has one limit"), "{error}");
        assert!(error.to_string().contains("limit(name, 1)"), "{error}");
    }
    publish().limit("api", 1).rate("api", 1, HOUR).await.unwrap();
}

#[tokio::test]
async fn a_one_time_job_takes_the_options_of_a_message() {
    let harness = harness(|builder| failing(builder, HandlerOptions::new())).await;
    let once = harness.jobs().once("charge").after(HOUR).queue("mail").priority(8);
    let once =
        once.header("tenant", "acme").timeout(HOUR).expires_after(DAY).correlation("checkout");
    let message = once.rate("api", 1, HOUR).prepare().await.unwrap().message;
    assert_eq!((message.queue.as_str(), message.priority.level()), ("mail", 8));
    assert_eq!(message.headers.get("tenant"), Some("acme"));
    let handler_options = message.handler_options.as_ref().unwrap();
    assert_eq!((handler_options.timeout, handler_options.expires_after), (Some(HOUR), Some(DAY)));
    assert_eq!(handler_options.retry, None, "left to the handler");
    assert_eq!(message.correlation.id.as_deref(), Some("checkout"));
    assert!(message.limit().is_some());
}
