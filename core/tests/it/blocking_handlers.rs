//! Blocking handlers cannot be dropped, so their slot stays taken until they return, and a result that is too
//! late is ignored.

use std::sync::{Arc, Mutex, mpsc};

use punctual::model::{DeadReason, Ending, MessageState};
use punctual::{Cancellation, Outcome, Retry, State, blocking};

use crate::harness::{Bench, Log, seconds};
use crate::test_handlers::{endings, logging, retrying};

/// A gate that blocks a thread until the test opens it.
#[derive(Clone)]
struct BlockingGate(Arc<Mutex<mpsc::Receiver<()>>>);

impl BlockingGate {
    fn closed() -> (mpsc::Sender<()>, Self) {
        let (open, closed) = mpsc::channel();
        (open, Self(Arc::new(Mutex::new(closed))))
    }

    /// Blocks the thread until the test opens the gate or drops the sender.
    fn wait(&self) {
        let _ = self.0.lock().unwrap().recv();
    }
}

fn waiting_handler(State(gate): State<BlockingGate>, State(log): State<Log>) -> Outcome {
    log.push("began");
    gate.wait();
    log.push("returned");
    Outcome::Done
}

/// Waits, on real threads, until a condition is true; panics after many checks.
async fn wait_until(what: &str, is_true: impl Fn() -> bool) {
    for _ in 0..5_000_000 {
        if is_true() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("it never came true that {what}");
}

// spec: H-26, T-10
#[tokio::test]
async fn past_its_timeout_the_attempt_has_failed_and_the_slot_stays_taken_until_it_returns() {
    let (log, (open, gate)) = (Log::default(), BlockingGate::closed());
    let handler_options = retrying(Retry::none()).timeout(seconds(30));
    let bench = Bench::start(|builder| {
        builder
            .state(gate)
            .state(log.clone())
            .queue("default", 1)
            .handler_with("waits", handler_options, blocking(waiting_handler))
            .handler("calm", logging::<()>(&log, |(), _| "calm".to_owned()))
    })
    .await;
    let publisher = bench.punctual.publisher();
    let sent = publisher.publish("waits", &()).await.unwrap();
    wait_until("it blocks", || log.len() == 1).await;
    // The timeout, and the grace after it: the attempt is over, the thread is not.
    bench.advance(seconds(60)).await;
    let record = bench.message(sent.id).await;
    assert_eq!((record.state, record.dead), (MessageState::Dead, Some(DeadReason::AttemptsSpent)));
    assert_eq!(endings(&bench.storage, sent.id).await, [Ending::TimedOut]);
    // The only slot is still taken, so nothing else runs here.
    let waiting = publisher.publish("calm", &()).await.unwrap();
    bench.advance(seconds(60)).await;
    assert_eq!(log.lines(), ["began"]);
    assert_eq!(bench.message(waiting.id).await.state, MessageState::Pending);
    // The handler returns: its slot is free, and its late success changes nothing.
    open.send(()).unwrap();
    wait_until("the next one ran", || log.len() == 3).await;
    assert_eq!(log.lines(), ["began", "returned", "calm"]);
    assert_eq!(bench.message(sent.id).await.state, MessageState::Dead);
    assert_eq!(endings(&bench.storage, sent.id).await, [Ending::TimedOut]);
}

#[tokio::test]
async fn a_handler_that_checks_its_cancellation_stops_in_its_grace() {
    fn cancellable_handler(
        cancellation: Cancellation,
        State(log): State<Log>,
    ) -> Result<(), String> {
        log.push("began");
        // A real handler does a piece of its work here instead.
        while !cancellation.is_requested() {
            std::thread::yield_now();
        }
        Err(format!("stopped: {:?}", cancellation.cause()))
    }
    let log = Log::default();
    let handler_options = retrying(Retry::none()).timeout(seconds(30));
    let bench = Bench::start(|builder| {
        builder.state(log.clone()).handler_with(
            "listens",
            handler_options,
            blocking(cancellable_handler),
        )
    })
    .await;
    let sent = bench.punctual.publisher().publish("listens", &()).await.unwrap();
    wait_until("it began", || log.len() == 1).await;
    bench.advance(seconds(30)).await;
    for _ in 0..5_000_000 {
        if bench.message(sent.id).await.state == MessageState::Dead {
            break;
        }
        tokio::task::yield_now().await;
    }
    // No grace was needed: the clock stands where the timeout was.
    assert_eq!(endings(&bench.storage, sent.id).await, [Ending::TimedOut]);
}

#[tokio::test]
async fn a_panic_is_a_failure_and_releases_the_slot() {
    fn panicking_handler() {
        panic!("pulled the wrong wire");
    }
    let log = Log::default();
    let bench = Bench::start(|builder| {
        builder
            .queue("default", 1)
            .handler_with("explodes", retrying(Retry::none()), blocking(panicking_handler))
            .handler("calm", logging::<()>(&log, |(), _| "calm".to_owned()))
    })
    .await;
    let publisher = bench.punctual.publisher();
    let sent = publisher.publish("explodes", &()).await.unwrap();
    publisher.publish("calm", &()).await.unwrap();
    wait_until("the next one ran", || log.len() == 1).await;
    bench.run_until_idle().await;
    let record = bench.message(sent.id).await;
    assert_eq!(record.state, MessageState::Dead);
    assert_eq!(record.error.as_deref(), Some("the handler panicked: pulled the wrong wire"));
    assert_eq!(endings(&bench.storage, sent.id).await, [Ending::Panicked]);
}

#[tokio::test]
async fn shutdown_releases_the_message_although_its_thread_runs_on() {
    let (log, (open, gate)) = (Log::default(), BlockingGate::closed());
    let bench = Bench::start(|builder| {
        builder.state(gate).state(log.clone()).handler("waits", blocking(waiting_handler))
    })
    .await;
    let sent = bench.punctual.publisher().publish("waits", &()).await.unwrap();
    wait_until("it blocks", || log.len() == 1).await;
    let stopped = crate::test_handlers::stop_within(&bench, seconds(600)).await;
    assert_eq!((stopped.interrupted, stopped.abandoned), (1, 0));
    let record = bench.message(sent.id).await;
    assert_eq!((record.state, record.attempt), (MessageState::Pending, 0), "no attempt is spent");
    assert_eq!(log.lines(), ["began"]);
    open.send(()).unwrap();
    wait_until("it returned", || log.len() == 2).await;
    assert_eq!(bench.message(sent.id).await.state, MessageState::Pending);
}
