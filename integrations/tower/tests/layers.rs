//! Layers of tower itself, and one of our own, around real attempts.
#![allow(clippy::unwrap_used)] // tests, whose helpers clippy does not know as such

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context as Task, Poll};
use std::time::Duration;

use punctual::handler::HandlerTest;
use punctual::model::{Ending, HandlerOptions};
use punctual::policy::AttemptEnd;
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

/// Counts how many of it are there.
#[derive(Clone, Default)]
struct Present(Arc<AtomicUsize>);

impl Present {
    fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }

    fn come(&self) -> Self {
        self.0.fetch_add(1, Ordering::AcqRel);
        self.clone()
    }
}

struct Guest(Present);

impl Drop for Guest {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

// The runtime's own clock stands still and jumps when everybody waits for it.
#[tokio::test(start_paused = true)]
async fn a_timeout_drops_the_handler_and_fails_the_attempt() {
    let present = Present::default();
    let guests = present.clone();
    let tried = HandlerTest::new()
        .with(|builder| builder.middleware(layered(TimeoutLayer::new(5 * SECOND))))
        .run(move || {
            let guest = Guest(guests.come());
            async move {
                std::future::pending::<()>().await;
                drop(guest);
            }
        })
        .await
        .unwrap();
    assert_eq!(tried.report, AttemptEnd::Failed { error: "request timed out".into() });
    assert_eq!(present.count(), 0, "the handler is gone");
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_returns_in_time_passes_unchanged() {
    let slow = |answer: Result<Outcome, HandlerError>| {
        let answer = Mutex::new(Some(answer));
        move || {
            let answer = answer.lock().unwrap().take().unwrap();
            async move {
                tokio::task::yield_now().await;
                answer
            }
        }
    };
    let layers = || ServiceBuilder::new().load_shed().concurrency_limit(1).timeout(SECOND);
    let trial = || HandlerTest::new().with(|builder| builder.middleware(layered(layers())));
    let tried = trial().run(slow(Ok(Outcome::Snooze(SECOND)))).await.unwrap();
    assert_eq!(tried.report, AttemptEnd::Snooze { wait: SECOND });
    let error = HandlerError::new("the card is stolen").permanent();
    let tried = trial().run(slow(Err(error))).await.unwrap();
    assert_eq!(tried.report, AttemptEnd::Discard { reason: "the card is stolen".into() });
    let error = HandlerError::from(std::io::Error::other("no route"));
    let tried = trial()
        .with(|builder| builder.on_error(|_: &std::io::Error| Some(Outcome::Cancel)))
        .run(slow(Err(error)))
        .await
        .unwrap();
    assert_eq!(tried.report, AttemptEnd::Cancel, "rules still find the handler's own error");
}

#[tokio::test(start_paused = true)]
async fn the_error_of_a_layer_is_found_by_its_type() {
    let tried = HandlerTest::new()
        .with(|builder| {
            let rule = |_: &Elapsed| Some(Outcome::RetryAfter(60 * SECOND));
            builder.middleware(layered(TimeoutLayer::new(SECOND))).on_error(rule)
        })
        .run(std::future::pending::<()>)
        .await
        .unwrap();
    let AttemptEnd::RetryAfter { wait, .. } = tried.report else { panic!("{:?}", tried.report) };
    assert_eq!(wait, 60 * SECOND);
}

#[tokio::test]
async fn a_panic_under_a_layer_is_a_failed_attempt() {
    let tried = HandlerTest::new()
        .with(|builder| builder.middleware(layered(ConcurrencyLimitLayer::new(1))))
        .run(async || -> () { panic!("out of paper") })
        .await
        .unwrap();
    let error = "the handler panicked: out of paper".into();
    assert_eq!(tried.report, AttemptEnd::Panicked { error });
}

/// A process whose handler waits at a gate, with layers around it.
async fn at_the_gate(
    present: &Present,
    gate: &Arc<Semaphore>,
    middleware: impl punctual::Middleware,
) -> TestHarness {
    let (present, gate) = (present.clone(), gate.clone());
    let handler_options = HandlerOptions::new().retry(Retry::none());
    let rehearsal = TestHarness::start(|builder| {
        let builder = builder.middleware(middleware);
        builder.handler_with("work", handler_options, move |_: u32| {
            let (present, gate) = (present.clone(), gate.clone());
            async move {
                let _guest = Guest(present.come());
                gate.acquire().await.map(tokio::sync::SemaphorePermit::forget)
            }
        })
    });
    let rehearsal = rehearsal.await.unwrap();
    for number in 0..5 {
        rehearsal.publisher().publish("work", &number).await.unwrap();
    }
    rehearsal.run_due().await;
    rehearsal
}

#[tokio::test]
async fn a_limit_is_shared_by_all_attempts() {
    let (present, gate) = (Present::default(), Arc::new(Semaphore::new(0)));
    let limit = layered(ConcurrencyLimitLayer::new(2));
    let rehearsal = at_the_gate(&present, &gate, limit).await;
    assert_eq!(present.count(), 2, "two inside, three wait");
    gate.add_permits(1);
    rehearsal.run_due().await;
    assert_eq!(present.count(), 2, "one left, one came");
    gate.add_permits(4);
    rehearsal.run_due().await;
    assert_eq!(present.count(), 0);
    rehearsal.assert_executed("work", 5);
    rehearsal.assert_dead("work", 0);
}

#[tokio::test]
async fn load_is_shed_as_a_failure() {
    let (present, gate) = (Present::default(), Arc::new(Semaphore::new(0)));
    let layers = ServiceBuilder::new().load_shed().concurrency_limit(2);
    let rehearsal = at_the_gate(&present, &gate, layered(layers)).await;
    assert_eq!(present.count(), 2);
    gate.add_permits(2);
    rehearsal.run_due().await;
    rehearsal.assert_dead("work", 3);
    let executions = rehearsal.executions("work");
    let shed = executions.iter().find(|one| one.ending == Ending::Failed).unwrap();
    assert_eq!(shed.note.as_deref(), Some(Overloaded::new().to_string().as_str()));
}

#[tokio::test]
async fn a_buffer_may_stand_between() {
    let (present, gate) = (Present::default(), Arc::new(Semaphore::new(5)));
    let layers = ServiceBuilder::new().buffer(8).concurrency_limit(1);
    let rehearsal = at_the_gate(&present, &gate, layered(layers)).await;
    rehearsal.assert_executed("work", 5);
    rehearsal.assert_dead("work", 0);
}

/// Lets no attempt of a topic through, and tells of the others.
#[derive(Clone)]
struct Watchman<S> {
    inner: S,
    book: Arc<Mutex<Vec<String>>>,
}

impl<S> Service<Attempt> for Watchman<S>
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
            return Box::pin(async { Err(HandlerError::new("nobody goes in").permanent().into()) });
        }
        let (answer, book) = (self.inner.call(attempt), self.book.clone());
        Box::pin(async move {
            let answer = answer.await;
            let end = answer.as_ref().map_or_else(ToString::to_string, |end| format!("{end:?}"));
            book.lock().unwrap().push(format!("{line}: {end}"));
            answer
        })
    }
}

#[tokio::test]
async fn a_layer_of_ones_own_sees_the_context_and_the_answer() {
    let book = Arc::new(Mutex::new(Vec::new()));
    let kept = book.clone();
    let layer = tower::layer::layer_fn(move |inner| Watchman { inner, book: kept.clone() });
    let rehearsal = TestHarness::start(|builder| {
        builder
            .middleware(layered(layer))
            .handler("open", async |_: u32, context: Context| match context.attempt() {
                1 => Err("not yet"),
                _ => Ok(()),
            })
            .handler("closed", async |_: u32| {})
    });
    let rehearsal = rehearsal.await.unwrap();
    rehearsal.publisher().publish("open", &1).await.unwrap();
    rehearsal.publisher().publish("closed", &1).await.unwrap();
    rehearsal.advance(60 * SECOND).await;
    assert_eq!(*book.lock().unwrap(), ["open 1: not yet", "open 2: Done"]);
    assert_eq!(rehearsal.dead("closed")[0].error.as_deref(), Some("nobody goes in"));
}

/// A service that drops what it is called with.
#[derive(Clone)]
struct Hole;

impl Service<Attempt> for Hole {
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

struct HoleLayer;

impl<S> Layer<S> for HoleLayer {
    type Service = Hole;

    fn layer(&self, _: S) -> Hole {
        Hole
    }
}

#[tokio::test]
async fn a_layer_may_answer_instead_of_the_handler() {
    let same = MapRequestLayer::new(|attempt: Attempt| attempt);
    let tried = HandlerTest::new()
        .with(|builder| builder.middleware(layered((same, HoleLayer))))
        .run(async || -> () { panic!("nobody calls it") })
        .await
        .unwrap();
    assert_eq!(tried.report, AttemptEnd::Cancel);
}
