//! Errors besides the retry policy: rules by type, errors with their own decision, hooks, and an external lock
//! around the runs of a job.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use punctual::inspect::ExecutionFilter;
use punctual::model::{Ending, MessageState, SkipReason};
use punctual::{
    Context, HandlerError, Job, Lock, Locks, Occurrence, Outcome, Overlap, Result, Retry,
};

use crate::harness::{Bench, Log, seconds};
use crate::test_handlers::{Gate, endings, executions, logging, retrying, stop_within, waiting};

#[derive(Debug)]
enum PaymentError {
    Stolen,
    Closed,
    Other,
}

impl fmt::Display for PaymentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "declined: {self:?}")
    }
}

impl Error for PaymentError {}

#[derive(Debug)]
struct WrappedError(PaymentError);

impl fmt::Display for WrappedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the payment failed")
    }
}

impl Error for WrappedError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

fn outcome_for(error: &PaymentError) -> Option<Outcome> {
    match error {
        PaymentError::Stolen => Some(Outcome::Discard("never again".to_owned())),
        PaymentError::Closed => Some(Outcome::Snooze(seconds(3_600))),
        PaymentError::Other => None,
    }
}

#[tokio::test]
async fn a_rule_decides_by_the_type_of_an_error_also_of_its_cause() {
    let bench = Bench::start(|builder| {
        let retry = retrying(Retry::intervals([seconds(5)]));
        builder.on_error(outcome_for).handler_with(
            "pay",
            retry,
            |kind: String, _: Context| async move {
                Err::<(), _>(match kind.as_str() {
                    "stolen" => WrappedError(PaymentError::Stolen),
                    "closed" => WrappedError(PaymentError::Closed),
                    _ => WrappedError(PaymentError::Other),
                })
            },
        )
    })
    .await;
    let publisher = bench.punctual.publisher();
    let mut ids = Vec::new();
    for kind in ["stolen", "closed", "other"] {
        ids.push(publisher.publish("pay", kind).await.unwrap().id);
    }
    bench.run_until_idle().await;
    let dead = bench.message(ids[0]).await;
    assert_eq!((dead.state, dead.error.as_deref()), (MessageState::Dead, Some("never again")));
    assert_eq!(endings(&bench.storage, ids[1]).await, [Ending::Snoozed]);
    assert_eq!(bench.message(ids[1]).await.attempt, 0, "a snooze spends no attempt");
    assert_eq!(endings(&bench.storage, ids[2]).await, [Ending::Failed]);
    let waits = bench.message(ids[2]).await.due_at.duration_since(bench.clock.now());
    assert_eq!(waits.as_secs(), 5, "the retry policy decides");
}

#[tokio::test]
async fn an_error_can_declare_itself_permanent_or_its_retry_delay() {
    let bench = Bench::start(|builder| {
        builder.handler("pay", |for_good: bool, _: Context| async move {
            let error = HandlerError::new("declined");
            Err::<(), _>(if for_good { error.permanent() } else { error.retry_after(seconds(77)) })
        })
    })
    .await;
    let publisher = bench.punctual.publisher();
    let gone = publisher.publish("pay", &true).await.unwrap().id;
    let later = publisher.publish("pay", &false).await.unwrap().id;
    bench.run_until_idle().await;
    assert_eq!(bench.message(gone).await.state, MessageState::Dead);
    let record = bench.message(later).await;
    assert_eq!(record.due_at.duration_since(bench.clock.now()).as_secs(), 77);
    assert_eq!((record.attempt, record.error.as_deref()), (1, Some("declined")));
}

// The callback for exhausted messages is not called for a success.
// spec: U-53, U-26
#[tokio::test]
async fn hooks_are_called_for_each_failure_and_once_at_the_end_and_cannot_break_the_worker() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        let (failures, ends) = (log.clone(), log.clone());
        let retry = retrying(Retry::intervals([seconds(5)]));
        builder
            .on_failure(|_| panic!("a hook with a defect"))
            .on_failure(move |failure| {
                let note = failure.execution.note.as_deref().unwrap_or_default();
                failures.push(format!("{note}, again {}", failure.again_at.is_some()));
            })
            .on_exhausted(move |end| {
                ends.push(format!("{} is {}", end.message.topic, end.reason.as_str()));
            })
            .handler_with("fails", retry, |(): (), _: Context| async { Err::<(), _>("no route") })
            .handler("works", |(): (), _: Context| async {})
    })
    .await;
    let publisher = bench.punctual.publisher();
    publisher.publish("works", &()).await.unwrap();
    publisher.publish("fails", &()).await.unwrap();
    bench.advance(seconds(60)).await;
    let lines = log.lines();
    assert_eq!(lines[..2], ["no route, again true", "no route, again false"]);
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[2].starts_with("fails is "), "{lines:?}");
}

/// Locks in memory, with a log of the operations.
#[derive(Default)]
struct MemoryLocks {
    taken: Mutex<BTreeSet<String>>,
    log: Log,
}

struct MemoryLock(Arc<MemoryLocks>, String);

#[derive(Clone)]
struct LockProvider(Arc<MemoryLocks>);

#[async_trait]
impl Locks for LockProvider {
    async fn acquire(&self, name: &str, duration: Duration) -> Result<Option<Box<dyn Lock>>> {
        if !self.0.taken.lock().unwrap().insert(name.to_owned()) {
            self.0.log.push(format!("{name} is taken"));
            return Ok(None);
        }
        self.0.log.push(format!("{name} for {} s", duration.as_secs()));
        Ok(Some(Box::new(MemoryLock(self.0.clone(), name.to_owned()))))
    }
}

#[async_trait]
impl Lock for MemoryLock {
    async fn extend(&mut self, _: Duration) -> Result<bool> {
        self.0.log.push("extended");
        Ok(true)
    }

    async fn release(self: Box<Self>) -> Result<()> {
        self.0.taken.lock().unwrap().remove(&self.1);
        self.0.log.push("released");
        Ok(())
    }
}

// Held as long as the job runs, which is the open question U-59.
// spec: U-41, U-43, U-44, U-45, U-59
#[tokio::test]
async fn a_run_acquires_extends_and_releases_the_lock_of_its_job_even_after_a_failure() {
    let (locks, gate, log) = (Arc::new(MemoryLocks::default()), Gate::shut(), Log::default());
    let bench = Bench::start(|builder| {
        let long = Job::cron("long", "5 7 * * *").lock_duration(seconds(90));
        let builder = builder.locks(Arc::new(LockProvider(locks.clone())));
        builder
            .job(long, waiting::<Occurrence>(&log, &gate))
            .job(Job::cron("fails", "0 9 * * *"), |_: Occurrence, _: Context| async {
                Err::<(), _>("no route")
            })
    })
    .await;
    bench.punctual.publisher().publish("long", &()).key("plain").await.unwrap();
    bench.advance(seconds(300)).await;
    assert_eq!(locks.log.lines(), ["messaging:job:long for 90 s"], "a plain message needs no lock");
    bench.advance(seconds(60)).await;
    assert_eq!(locks.log.lines()[1..], ["extended", "extended"]);
    gate.open(9);
    bench.run_until_idle().await;
    assert_eq!(locks.log.lines()[3..], ["released"]);
    bench.advance(seconds(2 * 3_600)).await;
    assert_eq!(locks.log.lines()[4..], ["messaging:job:fails for 300 s", "released"]);
    stop_within(&bench, seconds(60)).await;
}

// spec: U-42
#[tokio::test]
async fn while_another_process_has_the_lock_an_occurrence_is_skipped_or_waits() {
    let (locks, log) = (Arc::new(MemoryLocks::default()), Log::default());
    for name in ["skips", "waits"] {
        locks.taken.lock().unwrap().insert(format!("messaging:job:{name}"));
    }
    let bench = Bench::start(|builder| {
        let waits = Job::cron("waits", "5 7 * * *").overlap(Overlap::Allow { parallel_max: None });
        builder
            .locks(Arc::new(LockProvider(locks.clone())))
            .job(
                Job::cron("skips", "5 7 * * *"),
                logging::<Occurrence>(&log, |_, _| "skips".to_owned()),
            )
            .job(waits, logging::<Occurrence>(&log, |_, _| "waits".to_owned()))
    })
    .await;
    bench.advance(seconds(300)).await;
    assert_eq!(log.len(), 0);
    let skipped = executions(&bench.storage, ExecutionFilter::default()).await;
    let skips: Vec<_> = skipped.iter().filter(|one| one.topic.as_str() == "skips").collect();
    assert_eq!(skips.len(), 1);
    assert_eq!(skips[0].ending, Ending::Skipped(SkipReason::Overlap));
    locks.taken.lock().unwrap().clear();
    bench.advance(seconds(60)).await;
    assert_eq!(log.lines(), ["waits"]);
}

#[tokio::test]
async fn progress_and_log_are_stored_for_other_processes() {
    let gate = Gate::shut();
    let bench = Bench::start(|builder| {
        let gate = gate.clone();
        builder.handler("import", move |(): (), context: Context| {
            let gate = gate.clone();
            async move {
                context.progress((40, "reading"));
                context.log("opened the file");
                gate.pass().await;
                context.log("closed the file");
            }
        })
    })
    .await;
    let id = bench.punctual.publisher().publish("import", &()).await.unwrap().id;
    bench.advance(seconds(2)).await;
    let progress = bench.message(id).await.progress.unwrap();
    assert_eq!((progress.percent, progress.note.as_deref()), (Some(40), Some("reading")));
    gate.open(1);
    bench.run_until_idle().await;
    let history = crate::test_handlers::history(&bench.storage, id).await;
    assert_eq!(history[0].log.as_deref(), Some("opened the file\nclosed the file"));
}
