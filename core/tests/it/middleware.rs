//! Middleware: around every publish and every attempt, in the order of registration.

use async_trait::async_trait;
use punctual::inspect::{MessageFilter, PageRequest};
use punctual::model::{Ending, MessageState};
use punctual::{
    Context, Error, ErrorKind, HandlerResult, Inspect, Job, Message, Middleware, NextHandle,
    NextPublish, Occurrence, Outcome, Result, Retry,
};

use crate::harness::{Bench, Log, seconds};
use crate::test_handlers::{endings, logging, retrying};

/// Logs every publish and attempt, before and after.
struct LoggingMiddleware {
    name: &'static str,
    log: Log,
}

#[async_trait]
impl Middleware for LoggingMiddleware {
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
async fn the_first_middleware_is_outermost() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        builder
            .middleware(LoggingMiddleware { name: "outer", log: log.clone() })
            .middleware(LoggingMiddleware { name: "inner", log: log.clone() })
            .handler("mail", logging::<()>(&log, |(), _| "handler".to_owned()))
    })
    .await;
    bench.punctual.publisher().publish("mail", &()).await.unwrap();
    bench.run_until_idle().await;
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
async fn scheduled_runs_pass_the_middleware_too() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        builder.middleware(LoggingMiddleware { name: "it", log: log.clone() }).job(
            Job::cron("hourly", "0 * * * *"),
            logging::<Occurrence>(&log, |_, _| "ran".to_owned()),
        )
    })
    .await;
    bench.advance(seconds(3_600)).await;
    assert_eq!(log.lines(), ["it handles", "ran", "it handled"]);
    bench.punctual.jobs().once("hourly").payload(&serde_json::Value::Null).await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(log.lines()[3..5], ["it publishes", "it published"], "and so does planning");
}

/// Refuses messages without a tenant, and adds a header to the others.
struct TenantMiddleware;

#[async_trait]
impl Middleware for TenantMiddleware {
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
        builder.middleware(TenantMiddleware).handler(
            "mail",
            logging::<()>(&log, |(), context| format!("{:?}", context.headers().get("stamped"))),
        )
    })
    .await;
    let publisher = bench.punctual.publisher();
    let error = publisher.publish("mail", &()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let tenant = publisher.publish("mail", &()).header("tenant", "a");
    let many = vec![publisher.publish("mail", &()), tenant];
    assert!(publisher.publish_all(many).await.is_err(), "also among many");
    bench.run_until_idle().await;
    assert_eq!(log.len(), 0);
    publisher.publish("mail", &()).header("tenant", "b").await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(log.lines(), ["Some(\"yes\")"]);
}

/// Drops a publish without an error, which must not look like a success.
struct SwallowingMiddleware;

#[async_trait]
impl Middleware for SwallowingMiddleware {
    async fn around_publish(&self, _: Message, _: NextPublish<'_>) -> Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_publish_that_is_swallowed_is_not_a_success() {
    let bench = Bench::start(|builder| builder.middleware(SwallowingMiddleware)).await;
    let error = bench.punctual.publisher().publish("mail", &()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let stored =
        bench.storage.messages(MessageFilter::default(), PageRequest::first(9)).await.unwrap();
    assert!(stored.rows.is_empty());
}

/// Returns a result without the handler: done for some, a failure for others.
struct ShortCircuitMiddleware;

#[async_trait]
impl Middleware for ShortCircuitMiddleware {
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
async fn middleware_may_return_an_outcome_without_the_handler() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        builder.middleware(ShortCircuitMiddleware).handler_with(
            "mail",
            retrying(Retry::none()),
            logging::<()>(&log, |(), _| "handler".to_owned()),
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
        bench.run_until_idle().await;
        assert_eq!(bench.message(sent.id).await.state, state, "{answer}");
        assert_eq!(endings(&bench.storage, sent.id).await, [ending], "{answer}");
    }
    assert_eq!(log.lines(), ["handler"], "it was called for the last one only");
}
