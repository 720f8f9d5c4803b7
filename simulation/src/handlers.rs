//! Handlers that follow a script drawn for every attempt: done, failed, panicking, snoozing, slow,
//! stuck until asked to stop, deaf to being asked. Each start and each end is told to the ledger.

use std::sync::Arc;
use std::time::Duration;

use punctual::model::ExecutionId;
use punctual::{Context, HandlerError, HandlerResult, Outcome};

use super::ledger::Said;
use super::machine::Machine;
use super::random::Random;
use super::shared::Shared;

/// The topic of messages that the storage carries.
pub(crate) const WORK: &str = "work";
/// The topic of messages that the broker carries.
pub(crate) const CARRIED: &str = "carried";

/// What a handler does in one attempt.
#[derive(Clone, Copy, Debug)]
enum Script {
    Done,
    Fail,
    Panic,
    Snooze(Duration),
    Retry(Duration),
    Discard,
    Cancel,
    /// Works for a while; done, or failed.
    Work(Duration, bool),
    /// Waits until it is asked to stop.
    Hang,
    /// Works for a while without listening.
    Deaf(Duration),
    /// Sends another message.
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
            90..=91 => Self::Hang,
            92..=93 => Self::Deaf(random.seconds(1, 200)),
            _ => Self::Publish(random.seconds(0, 600)),
        }
    }
}

/// Runs one attempt by a script.
pub(crate) async fn handle(machine: Arc<Machine>, context: Context) -> HandlerResult {
    let shared = machine.shared.clone();
    machine.pass().await;
    shared.stir();
    shared.ledger().started(&machine, &context, context.topic().as_str() == CARRIED);
    let mut told = Told { shared: shared.clone(), execution: context.execution_id(), said: None };
    let script = if shared.at_peace() { Script::Done } else { shared.draw(Script::draw) };
    shared.note(|| {
        let (id, attempt) = (context.message_id(), context.attempt());
        format!("{} handles {} {id} attempt {attempt}: {script:?}", machine.name, context.topic())
    });
    let result = play(script, &machine, &context).await;
    machine.pass().await;
    shared.stir();
    told.said = Some(match &result {
        Ok(Outcome::Done) => Said::Done,
        Ok(Outcome::RetryAfter(_)) => Said::Retry,
        Ok(Outcome::Snooze(_)) => Said::Snooze,
        Ok(Outcome::Discard(_)) => Said::Discard,
        Ok(_) => Said::Cancel,
        Err(_) => Said::Failed,
    });
    result
}

async fn play(script: Script, machine: &Arc<Machine>, context: &Context) -> HandlerResult {
    let shared = &machine.shared;
    match script {
        Script::Done => Ok(Outcome::Done),
        Script::Fail => Err(HandlerError::new("scripted failure")),
        // Without the panic hook, so that nothing is printed.
        Script::Panic => std::panic::resume_unwind(Box::new("scripted panic")),
        Script::Snooze(wait) => Ok(Outcome::Snooze(wait)),
        Script::Retry(wait) => Ok(Outcome::RetryAfter(wait)),
        Script::Discard => Ok(Outcome::Discard("scripted".to_owned())),
        Script::Cancel => Ok(Outcome::Cancel),
        Script::Work(length, good) => {
            tokio::select! {
                biased;
                _ = context.cancelled() => Err(HandlerError::new("asked to stop")),
                () = machine.work_for(length) => {
                    if good { Ok(Outcome::Done) } else { Err(HandlerError::new("failed in the end")) }
                }
            }
        }
        Script::Hang => {
            tokio::select! {
                biased;
                _ = context.cancelled() => Err(HandlerError::new("asked to stop")),
                () = shared.peace() => Ok(Outcome::Done),
            }
        }
        Script::Deaf(length) => {
            machine.work_for(length).await;
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

/// Tells the ledger how it ended, also when the attempt is dropped in the middle.
struct Told {
    shared: Arc<Shared>,
    execution: ExecutionId,
    said: Option<Said>,
}

impl Drop for Told {
    fn drop(&mut self) {
        self.shared.ledger().ended(self.execution, self.said);
    }
}
