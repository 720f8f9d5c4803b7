//! Layers of tower itself, and a custom one, around real attempts.
#![allow(clippy::unwrap_used)] // tests, whose helpers clippy does not know as such

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context as Task, Poll};
use std::time::Duration;

use punctual::model::{Ending, HandlerOptions};
use punctual::policy::AttemptEnd;
use punctual::testing::HandlerTest;
use punctual::testing::TestHarness;
use punctual::{Context, HandlerError, Outcome, Retry};
use punctual_tower::{Attempt, AttemptError, layered};
use tokio::sync::Semaphore;
use tower::limit::ConcurrencyLimitLayer;
use tower::load_shed::error::Overloaded;
use tower::timeout::TimeoutLayer;
use tower::timeout::error::Elapsed;
use tower::util::MapRequestLayer;
use tower::{Layer, Service, ServiceBuilder};

const SECOND: Duration = Duration::from_secs(1);

/// Counts the handlers that run.
#[derive(Clone, Default)]
struct RunningCount(Arc<AtomicUsize>);

impl RunningCount {
    fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }

    fn enter(&self) -> Self {
        self.0.fetch_add(1, Ordering::AcqRel);
        self.clone()
    }
}

struct RunningGuard(RunningCount);

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

// The paused clock of the runtime advances when every task waits for it.
#[tokio::test(start_paused = true)]
async fn a_timeout_drops_the_handler_and_fails_the_attempt() {
    let running = RunningCount::default();
    let counter = running.clone();
    let tested = HandlerTest::new()
        .with(|builder| builder.middleware(layered(TimeoutLayer::new(5 * SECOND))))
        .run(move || {
            let guard = RunningGuard(counter.enter());
            async move {
                std::future::pending::<()>().await;
                drop(guard);
            }
        })
        .await
        .unwrap();
    assert_eq!(tested.report, AttemptEnd::Failed { error: "request timed out".into() });
    assert_eq!(running.count(), 0, "the handler is gone");
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_returns_in_time_passes_unchanged() {
    let slow = |result: Result<Outcome, HandlerError>| {
        let result = Mutex::new(Some(result));
        move || {
            let result = result.lock().unwrap().take().unwrap();
            async move {
                tokio::task::yield_now().await;
                result
            }
        }
    };
    let layers = || ServiceBuilder::new().load_shed().concurrency_limit(1).timeout(SECOND);
    let handler_test = || HandlerTest::new().with(|builder| builder.middleware(layered(layers())));
    let tested = handler_test().run(slow(Ok(Outcome::Snooze(SECOND)))).await.unwrap();
    assert_eq!(tested.report, AttemptEnd::Snooze { wait: SECOND });
    let error = HandlerError::new("the card is stolen").permanent();
    let tested = handler_test().run(slow(Err(error))).await.unwrap();
    assert_eq!(tested.report, AttemptEnd::Discard { reason: "the card is stolen".into() });
    let error = HandlerError::from(std::io::Error::other("no route"));
    let tested = handler_test()
        .with(|builder| builder.on_error(|_: &std::io::Error| Some(Outcome::Cancel)))
        .run(slow(Err(error)))
        .await
        .unwrap();
    assert_eq!(tested.report, AttemptEnd::Cancel, "rules still find the handler's own error");
}

#[tokio::test(start_paused = true)]
async fn the_error_of_a_layer_is_found_by_its_type() {
    let tested = HandlerTest::new()
        .with(|builder| {
            let rule = |_: &Elapsed| Some(Outcome::RetryAfter(60 * SECOND));
            builder.middleware(layered(TimeoutLayer::new(SECOND))).on_error(rule)
        })
        .run(std::future::pending::<()>)
        .await
        .unwrap();
    let AttemptEnd::RetryAfter { wait, .. } = tested.report else { panic!("{:?}", tested.report) };
    assert_eq!(wait, 60 * SECOND);
}

#[tokio::test]
async fn a_panic_under_a_layer_is_a_failed_attempt() {
    let tested = HandlerTest::new()
        .with(|builder| builder.middleware(layered(ConcurrencyLimitLayer::new(1))))
        .run(async || -> () { panic!("out of paper") })
        .await
        .unwrap();
    let error = "the handler panicked: out of paper".into();
    assert_eq!(tested.report, AttemptEnd::Panicked { error });
}

/// Starts a process with layers around a handler that waits at a gate.
async fn harness_with_gate(
    running: &RunningCount,
    gate: &Arc<Semaphore>,
    middleware: impl punctual::Middleware,
) -> TestHarness {
    let (running, gate) = (running.clone(), gate.clone());
    let handler_options = HandlerOptions::new().retry(Retry::none());
    let harness = TestHarness::start(|builder| {
        let builder = builder.middleware(middleware);
        builder.handler_with("work", handler_options, move |_: u32| {
            let (running, gate) = (running.clone(), gate.clone());
            async move {
                let _guard = RunningGuard(running.enter());
                gate.acquire().await.map(tokio::sync::SemaphorePermit::forget)
            }
        })
    });
    let harness = harness.await.unwrap();
    for number in 0..5 {
        harness.publisher().publish("work", &number).await.unwrap();
    }
    harness.run_due().await;
    harness
}

#[tokio::test]
async fn a_limit_is_shared_by_all_attempts() {
    let (running, gate) = (RunningCount::default(), Arc::new(Semaphore::new(0)));
    let limit = layered(ConcurrencyLimitLayer::new(2));
    let harness = harness_with_gate(&running, &gate, limit).await;
    assert_eq!(running.count(), 2, "two inside, three wait");
    gate.add_permits(1);
    harness.run_due().await;
    assert_eq!(running.count(), 2, "one ended, one started");
    gate.add_permits(4);
    harness.run_due().await;
    assert_eq!(running.count(), 0);
    harness.assert_executed("work", 5);
    harness.assert_dead("work", 0);
}

#[tokio::test]
async fn shed_load_is_a_failure() {
    let (running, gate) = (RunningCount::default(), Arc::new(Semaphore::new(0)));
    let layers = ServiceBuilder::new().load_shed().concurrency_limit(2);
    let harness = harness_with_gate(&running, &gate, layered(layers)).await;
    assert_eq!(running.count(), 2);
    gate.add_permits(2);
    harness.run_due().await;
    harness.assert_dead("work", 3);
    let executions = harness.executions("work");
    let shed = executions.iter().find(|one| one.ending == Ending::Failed).unwrap();
    assert_eq!(shed.note.as_deref(), Some(Overloaded::new().to_string().as_str()));
}

#[tokio::test]
async fn a_buffer_layer_works() {
    let (running, gate) = (RunningCount::default(), Arc::new(Semaphore::new(5)));
    let layers = ServiceBuilder::new().buffer(8).concurrency_limit(1);
    let harness = harness_with_gate(&running, &gate, layered(layers)).await;
    harness.assert_executed("work", 5);
    harness.assert_dead("work", 0);
}

/// Refuses the attempts of a topic, and logs the results of the others.
#[derive(Clone)]
struct TopicFilter<S> {
    inner: S,
    log: Arc<Mutex<Vec<String>>>,
}

impl<S> Service<Attempt> for TopicFilter<S>
where
    S: Service<Attempt, Response = Outcome, Error = AttemptError> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Outcome;
    type Error = AttemptError;
    type Future = Pin<Box<dyn Future<Output = Result<Outcome, AttemptError>> + Send>>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), AttemptError>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, attempt: Attempt) -> Self::Future {
        let line = format!("{} {}", attempt.context().topic(), attempt.context().attempt());
        if line.starts_with("closed") {
            return Box::pin(async {
                Err(HandlerError::new("the topic is closed").permanent().into())
            });
        }
        let (result, log) = (self.inner.call(attempt), self.log.clone());
        Box::pin(async move {
            let result = result.await;
            let end = result.as_ref().map_or_else(ToString::to_string, |end| format!("{end:?}"));
            log.lock().unwrap().push(format!("{line}: {end}"));
            result
        })
    }
}

#[tokio::test]
async fn a_custom_layer_gets_the_context_and_the_result() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let layer_log = log.clone();
    let layer = tower::layer::layer_fn(move |inner| TopicFilter { inner, log: layer_log.clone() });
    let harness = TestHarness::start(|builder| {
        builder
            .middleware(layered(layer))
            .handler("open", async |_: u32, context: Context| match context.attempt() {
                1 => Err("not yet"),
                _ => Ok(()),
            })
            .handler("closed", async |_: u32| {})
    });
    let harness = harness.await.unwrap();
    harness.publisher().publish("open", &1).await.unwrap();
    harness.publisher().publish("closed", &1).await.unwrap();
    harness.advance(60 * SECOND).await;
    assert_eq!(*log.lock().unwrap(), ["open 1: not yet", "open 2: Done"]);
    assert_eq!(harness.dead("closed")[0].error.as_deref(), Some("the topic is closed"));
}

/// A service that drops its request.
#[derive(Clone)]
struct DroppingService;

impl Service<Attempt> for DroppingService {
    type Response = Outcome;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Outcome, Infallible>>;

    fn poll_ready(&mut self, _: &mut Task<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Attempt) -> Self::Future {
        std::future::ready(Ok(Outcome::Cancel))
    }
}

struct DroppingLayer;

impl<S> Layer<S> for DroppingLayer {
    type Service = DroppingService;

    fn layer(&self, _: S) -> DroppingService {
        DroppingService
    }
}

#[tokio::test]
async fn a_layer_may_return_an_outcome_instead_of_the_handler() {
    let same = MapRequestLayer::new(|attempt: Attempt| attempt);
    let tested = HandlerTest::new()
        .with(|builder| builder.middleware(layered((same, DroppingLayer))))
        .run(async || -> () { panic!("must not be called") })
        .await
        .unwrap();
    assert_eq!(tested.report, AttemptEnd::Cancel);
}
