//! A run of a job under an external lock: taken before the handler, kept while it runs, given back
//! after it however it ended. While somebody else has it, the occurrence is skipped or waits, as the
//! job's overlap policy says.

use std::time::Duration;

use super::Process;
use crate::clock::{Clock, add};
use crate::event::Event;
use crate::handler::Context;
use crate::lock::{LOCK_DURATION_DEFAULT, Lock, lock_name};
use crate::model::JobName;
use crate::policy::{AttemptEnd, EffectiveHandlerOptions};

/// How long a run waits before it asks again, when it may not be skipped.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// Runs work under the lock of its job, when there are locks and a job.
pub(super) async fn locked(
    process: &Process,
    context: &Context,
    handler_options: &EffectiveHandlerOptions,
    work: impl Future<Output = Option<AttemptEnd>>,
) -> Option<AttemptEnd> {
    let (Some(locks), Some(job)) = (&process.locks, context.job()) else { return work.await };
    let (name, length) =
        (lock_name(job), handler_options.lock_duration.unwrap_or(LOCK_DURATION_DEFAULT));
    match locks.acquire(&name, length).await {
        Ok(Some(mut lock)) => {
            let report = tokio::select! {
                biased;
                report = work => report,
                never = keep(process, &mut *lock, job, length) => match never {},
            };
            if let Err(error) = lock.release().await {
                told(process, job, &error.to_string());
            }
            report
        }
        Ok(None) if context.is_exclusive() => Some(AttemptEnd::Overlapped),
        Ok(None) => Some(AttemptEnd::Snooze { wait: ASK_AGAIN }),
        Err(error) => Some(AttemptEnd::Failed {
            error: format!("the lock {name:?} could not be asked for: {error}").into(),
        }),
    }
}

/// Extends a lock at a third of its length until it is dropped. One that was lost is told of and left
/// alone: the lease of the storage still holds.
async fn keep(
    process: &Process,
    lock: &mut dyn Lock,
    job: &JobName,
    length: Duration,
) -> std::convert::Infallible {
    let clock: &dyn Clock = &*process.clock;
    loop {
        clock.sleep_until(add(clock.now(), length / 3)).await;
        match lock.extend(length).await {
            Ok(true) => {}
            Ok(false) => {
                told(process, job, "the lock was lost while its job ran");
                std::future::pending::<()>().await;
            }
            Err(error) => told(process, job, &error.to_string()),
        }
    }
}

fn told(process: &Process, job: &JobName, error: &str) {
    process.events.emit(Event::ServiceFailed {
        service: format!("lock of {job}"),
        error: error.to_owned(),
        again_at: process.now(),
    });
}
