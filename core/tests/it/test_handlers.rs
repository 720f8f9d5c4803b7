//! Test handlers: ones that log, fail, wait at a gate or never return; and helpers that most tests use.

use std::future::{Pending, Ready, ready};
use std::sync::Arc;
use std::time::Duration;

use punctual::inspect::{ExecutionFilter, PageRequest};
use punctual::model::{Ending, Execution, HandlerOptions, MessageId};
use punctual::{Context, Inspect, MemoryStorage, Retry, ShutdownReport};
use tokio::sync::Semaphore;

use crate::harness::{Bench, Log};

/// A handler that logs a line and succeeds.
pub(crate) fn logging<M: Send + 'static>(
    log: &Log,
    line: impl Fn(&M, &Context) -> String + Send + Sync + 'static,
) -> impl Fn(M, Context) -> Ready<()> + Send + Sync + 'static {
    let log = log.clone();
    move |message: M, context: Context| {
        log.push(line(&message, &context));
        ready(())
    }
}

/// A handler that logs its attempt number and start, and fails.
pub(crate) fn failing<M: Send + 'static>(
    log: &Log,
) -> impl Fn(M, Context) -> Ready<Result<(), &'static str>> + Send + Sync + 'static {
    let log = log.clone();
    move |_: M, context: Context| {
        log.push(format!("{} {}", context.attempt(), context.started_at()));
        ready(Err("out of order"))
    }
}

/// A handler that logs its attempt number and start, and never returns, even when it is cancelled.
pub(crate) fn never_returning<M: Send + 'static>(
    log: &Log,
) -> impl Fn(M, Context) -> Pending<()> + Send + Sync + 'static {
    let log = log.clone();
    move |_: M, context: Context| {
        log.push(format!("{} {}", context.attempt(), context.started_at()));
        std::future::pending()
    }
}

/// A handler that logs "began", waits at a gate, and logs "ended".
pub(crate) fn waiting<M: Send + 'static>(
    log: &Log,
    gate: &Gate,
) -> impl Fn(M, Context) -> futures_util::future::BoxFuture<'static, ()> + Send + Sync + 'static {
    let (log, gate) = (log.clone(), gate.clone());
    move |_: M, _: Context| {
        let (log, gate) = (log.clone(), gate.clone());
        Box::pin(async move {
            log.push("began");
            gate.pass().await;
            log.push("ended");
        })
    }
}

/// Blocks handlers until the test opens it.
#[derive(Clone)]
pub(crate) struct Gate(Arc<Semaphore>);

impl Gate {
    pub(crate) fn shut() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    /// Lets `count` handlers pass.
    pub(crate) fn open(&self, count: usize) {
        self.0.add_permits(count);
    }

    pub(crate) async fn pass(&self) {
        self.0.acquire().await.unwrap().forget();
    }
}

/// Returns the default options with another retry policy.
pub(crate) fn retrying(retry: Retry) -> HandlerOptions {
    HandlerOptions::new().retry(retry)
}

/// Returns the executions of a message, oldest first.
pub(crate) async fn history(storage: &MemoryStorage, id: MessageId) -> Vec<Execution> {
    let filter = ExecutionFilter { message: Some(id), ..ExecutionFilter::default() };
    executions(storage, filter).await
}

/// Returns the executions that match, oldest first.
pub(crate) async fn executions(storage: &MemoryStorage, filter: ExecutionFilter) -> Vec<Execution> {
    let mut rows = storage.executions(filter, PageRequest::first(1_000)).await.unwrap().rows;
    rows.sort_by_key(|execution| (execution.ended_at, execution.id));
    rows
}

/// Returns the endings of the attempts of a message, oldest first.
pub(crate) async fn endings(storage: &MemoryStorage, id: MessageId) -> Vec<Ending> {
    history(storage, id).await.iter().map(|execution| execution.ending).collect()
}

/// Shuts a process down while the clock advances; panics when the shutdown takes longer.
pub(crate) async fn stop_within(bench: &Bench, duration: Duration) -> ShutdownReport {
    tokio::select! {
        biased;
        stopped = bench.punctual.shutdown() => stopped,
        () = bench.advance(duration) => panic!("the shutdown took longer than {duration:?}"),
    }
}

/// Advances the clock in steps of one size: much faster than [`Bench::advance`] over days, for tests
/// whose instants are multiples of the step.
pub(crate) async fn advance_in_steps(bench: &Bench, duration: Duration, step: Duration) {
    let steps = duration.as_secs() / step.as_secs();
    for _ in 0..steps {
        bench.clock.advance(step);
        bench.run_until_idle().await;
    }
}
