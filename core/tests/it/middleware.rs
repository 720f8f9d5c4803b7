//! Middleware: around every publish and every attempt, in the order it was given.

use async_trait::async_trait;
use punctual::inspect::{MessageFilter, PageRequest};
use punctual::model::{Ending, MessageState};
use punctual::{
    Context, Error, ErrorKind, HandlerResult, Inspect, Job, Message, Middleware, NextHandle,
    NextPublish, Occurrence, Outcome, Result, Retry,
};

use crate::acting::{endings, retrying, telling};
use crate::harness::{Bench, Log, seconds};

/// Tells when something passes it, on the way in and on the way out.
struct Telling {
    name: &'static str,
    log: Log,
}

#[async_trait]
impl Middleware for Telling {
    async fn around_publish(&self, message: Message, next: NextPublish<'_>) -> Result<()> {
        self.log.push(format!("{} publishes", self.name));
        let result = next.run(message).await;
        self.log.push(format!("{} published", self.name));
        result
    }

    async fn around_handle(&self, context: Context, next: NextHandle<'_>) -> HandlerResult {
        self.log.push(format!("{} handles", self.name));
        let result = next.run(context).await;
        self.log.push(format!("{} handled", self.name));
        result
    }
}

// spec: U-53
#[tokio::test]
async fn the_first_one_given_is_outermost() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        builder
            .middleware(Telling { name: "outer", log: log.clone() })
            .middleware(Telling { name: "inner", log: log.clone() })
            .handler("mail", telling::<()>(&log, |(), _| "handler".to_owned()))
    })
    .await;
    bench.punctual.publisher().publish("mail", &()).await.unwrap();
    bench.rest().await;
    assert_eq!(
        log.lines(),
        [
            "outer publishes",
            "inner publishes",
            "inner published",
            "outer published",
            "outer handles",
            "inner handles",
            "handler",
            "inner handled",
            "outer handled",
        ]
    );
}

// spec: U-23, U-57
#[tokio::test]
async fn scheduled_runs_pass_it_too() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        builder.middleware(Telling { name: "it", log: log.clone() }).job(
            Job::cron("hourly", "0 * * * *"),
            telling::<Occurrence>(&log, |_, _| "ran".to_owned()),
        )
    })
    .await;
    bench.advance(seconds(3_600)).await;
    assert_eq!(log.lines(), ["it handles", "ran", "it handled"]);
    bench.punctual.jobs().once("hourly").payload(&serde_json::Value::Null).await.unwrap();
    bench.rest().await;
    assert_eq!(log.lines()[3..5], ["it publishes", "it published"], "and so does planning");
}

/// Refuses what has no tenant, and stamps what has.
struct Tenants;

#[async_trait]
impl Middleware for Tenants {
    async fn around_publish(&self, mut message: Message, next: NextPublish<'_>) -> Result<()> {
        if message.headers.get("tenant").is_none() {
            return Err(Error::invalid("a message needs a tenant").with("message", message.id));
        }
        message.headers.insert("stamped", "yes")?;
        next.run(message).await
    }
}

#[tokio::test]
async fn a_publish_may_be_refused_or_changed() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        builder.middleware(Tenants).handler(
            "mail",
            telling::<()>(&log, |(), context| format!("{:?}", context.headers().get("stamped"))),
        )
    })
    .await;
    let publisher = bench.punctual.publisher();
    let error = publisher.publish("mail", &()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let tenant = publisher.publish("mail", &()).header("tenant", "a");
    let many = vec![publisher.publish("mail", &()), tenant];
    assert!(publisher.publish_all(many).await.is_err(), "also among many");
    bench.rest().await;
    assert_eq!(log.len(), 0);
    publisher.publish("mail", &()).header("tenant", "b").await.unwrap();
    bench.rest().await;
    assert_eq!(log.lines(), ["Some(\"yes\")"]);
}

/// Swallows a publish without an error, which must not look like a success.
struct Swallowing;

#[async_trait]
impl Middleware for Swallowing {
    async fn around_publish(&self, _: Message, _: NextPublish<'_>) -> Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_publish_that_is_swallowed_is_not_a_success() {
    let bench = Bench::start(|builder| builder.middleware(Swallowing)).await;
    let error = bench.punctual.publisher().publish("mail", &()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let stored =
        bench.storage.messages(MessageFilter::default(), PageRequest::first(9)).await.unwrap();
    assert!(stored.rows.is_empty());
}

/// Answers instead of the handler: done for some, a failure for the rest.
struct Answering;

#[async_trait]
impl Middleware for Answering {
    async fn around_handle(&self, context: Context, next: NextHandle<'_>) -> HandlerResult {
        match context.headers().get("answer") {
            Some("done") => Ok(Outcome::Done),
            Some("fail") => Err("not today".into()),
            Some("panic") => panic!("the middleware gave in"),
            _ => next.run(context).await,
        }
    }
}

#[tokio::test]
async fn an_attempt_may_be_answered_without_the_handler() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        builder.middleware(Answering).handler_with(
            "mail",
            retrying(Retry::none()),
            telling::<()>(&log, |(), _| "handler".to_owned()),
        )
    })
    .await;
    let publisher = bench.punctual.publisher();
    let cases = [
        ("done", MessageState::Done, Ending::Succeeded),
        ("fail", MessageState::Dead, Ending::Failed),
        ("panic", MessageState::Dead, Ending::Panicked),
        ("pass", MessageState::Done, Ending::Succeeded),
    ];
    for (answer, state, ending) in cases {
        let sent = publisher.publish("mail", &()).header("answer", answer).await.unwrap();
        bench.rest().await;
        assert_eq!(bench.message(sent.id).await.state, state, "{answer}");
        assert_eq!(endings(&bench.storage, sent.id).await, [ending], "{answer}");
    }
    assert_eq!(log.lines(), ["handler"], "it was called for the last one only");
}
