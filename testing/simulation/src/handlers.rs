//! Handlers: each attempt follows a random script, such as success, failure, panic, snooze, slow work, waiting for
//! cancellation or ignoring it. Each start and each end is reported to the ledger.

use std::sync::Arc;
use std::time::Duration;

use punctual::model::ExecutionId;
use punctual::{Context, HandlerError, HandlerResult, Outcome};

use super::ledger::RunResult;
use super::machine::Machine;
use super::random::Random;
use super::shared::Shared;

/// Topic of messages in the storage.
pub(crate) const WORK: &str = "work";
/// Topic of messages in the broker.
pub(crate) const CARRIED: &str = "carried";

/// Behaviour of a handler in one attempt.
#[derive(Clone, Copy, Debug)]
enum Script {
    Done,
    Fail,
    Panic,
    Snooze(Duration),
    Retry(Duration),
    Discard,
    Cancel,
    /// Works for a duration, then succeeds or fails.
    Work(Duration, bool),
    /// Waits until it is cancelled.
    AwaitCancel,
    /// Works for a duration and ignores cancellation.
    IgnoreCancel(Duration),
    /// Publishes another message.
    Publish(Duration),
}

impl Script {
    fn draw(random: &mut Random) -> Self {
        match random.below(100) {
            0..=34 => Self::Done,
            35..=49 => Self::Fail,
            50..=53 => Self::Panic,
            54..=58 => Self::Snooze(random.seconds(0, 120)),
            59..=63 => Self::Retry(random.seconds(0, 120)),
            64..=66 => Self::Discard,
            67..=68 => Self::Cancel,
            69..=85 => Self::Work(random.millis(1, 40_000), random.percent(80)),
            86..=89 => Self::Work(random.seconds(60, 400), random.percent(80)),
            90..=91 => Self::AwaitCancel,
            92..=93 => Self::IgnoreCancel(random.seconds(1, 200)),
            _ => Self::Publish(random.seconds(0, 600)),
        }
    }
}

/// Runs one attempt with a random script.
pub(crate) async fn handle(machine: Arc<Machine>, context: Context) -> HandlerResult {
    let shared = machine.shared.clone();
    machine.wait_until_running().await;
    shared.record_activity();
    shared.ledger().started(&machine, &context, context.topic().as_str() == CARRIED);
    let mut reporter =
        EndReporter { shared: shared.clone(), execution: context.execution_id(), result: None };
    let script = if shared.faults_stopped() { Script::Done } else { shared.draw(Script::draw) };
    shared.note(|| {
        let (id, attempt) = (context.message_id(), context.attempt());
        format!("{} handles {} {id} attempt {attempt}: {script:?}", machine.name, context.topic())
    });
    let result = run_script(script, &machine, &context).await;
    machine.wait_until_running().await;
    shared.record_activity();
    reporter.result = Some(match &result {
        Ok(Outcome::Done) => RunResult::Done,
        Ok(Outcome::RetryAfter(_)) => RunResult::Retry,
        Ok(Outcome::Snooze(_)) => RunResult::Snooze,
        Ok(Outcome::Discard(_)) => RunResult::Discard,
        Ok(_) => RunResult::Cancel,
        Err(_) => RunResult::Failed,
    });
    result
}

async fn run_script(script: Script, machine: &Arc<Machine>, context: &Context) -> HandlerResult {
    let shared = &machine.shared;
    match script {
        Script::Done => Ok(Outcome::Done),
        Script::Fail => Err(HandlerError::new("scripted failure")),
        // Skips the panic hook, so that nothing is printed.
        Script::Panic => std::panic::resume_unwind(Box::new("scripted panic")),
        Script::Snooze(wait) => Ok(Outcome::Snooze(wait)),
        Script::Retry(wait) => Ok(Outcome::RetryAfter(wait)),
        Script::Discard => Ok(Outcome::Discard("scripted".to_owned())),
        Script::Cancel => Ok(Outcome::Cancel),
        Script::Work(duration, succeeds) => {
            tokio::select! {
                biased;
                _ = context.cancelled() => Err(HandlerError::new("cancelled")),
                () = machine.work_for(duration) => {
                    if succeeds { Ok(Outcome::Done) } else { Err(HandlerError::new("failed after work")) }
                }
            }
        }
        Script::AwaitCancel => {
            tokio::select! {
                biased;
                _ = context.cancelled() => Err(HandlerError::new("cancelled")),
                () = shared.wait_until_faults_stop() => Ok(Outcome::Done),
            }
        }
        Script::IgnoreCancel(duration) => {
            machine.work_for(duration).await;
            Ok(Outcome::Done)
        }
        Script::Publish(wait) => {
            let published = context.publisher().publish(WORK, &0_u64).after(wait).await;
            if let Ok(published) = published {
                shared.ledger().accept(published.id);
            }
            Ok(Outcome::Done)
        }
    }
}

/// Reports the end of an attempt to the ledger when dropped, also when the attempt itself is dropped.
struct EndReporter {
    shared: Arc<Shared>,
    execution: ExecutionId,
    result: Option<RunResult>,
}

impl Drop for EndReporter {
    fn drop(&mut self) {
        self.shared.ledger().ended(self.execution, self.result);
    }
}
