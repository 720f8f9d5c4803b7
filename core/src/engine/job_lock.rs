//! Job lock: runs a job under an external lock, which is acquired before the handler, extended while it runs
//! and released after it. While another process has the lock, the occurrence is skipped or waits, by the job's
//! overlap policy.

use std::time::Duration;

use super::Process;
use crate::clock::Clock;
use crate::event::Event;
use crate::handler::Context;
use crate::lock::{LOCK_DURATION_DEFAULT, Lock, lock_name};
use crate::model::JobName;
use crate::model::time::add;
use crate::policy::{AttemptEnd, EffectiveHandlerOptions};

/// Delay before a run that may not be skipped tries to acquire the lock again.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// Runs work under the lock of its job; without locks or without a job, runs it directly.
pub(super) async fn with_job_lock(
    process: &Process,
    context: &Context,
    handler_options: &EffectiveHandlerOptions,
    work: impl Future<Output = Option<AttemptEnd>>,
) -> Option<AttemptEnd> {
    let (Some(locks), Some(job)) = (&process.runner.locks, context.job()) else {
        return work.await;
    };
    let (name, duration) =
        (lock_name(job), handler_options.lock_duration.unwrap_or(LOCK_DURATION_DEFAULT));
    match locks.acquire(&name, duration).await {
        Ok(Some(mut lock)) => {
            let report = tokio::select! {
                biased;
                report = work => report,
                never = extend_while_held(process, &mut *lock, job, duration) => match never {},
            };
            if let Err(error) = lock.release().await {
                report_failure(process, job, &error.to_string());
            }
            report
        }
        Ok(None) if context.is_exclusive() => Some(AttemptEnd::Overlapped),
        Ok(None) => Some(AttemptEnd::Snooze { wait: RETRY_DELAY }),
        Err(error) => Some(AttemptEnd::Failed {
            error: format!("the lock {name:?} could not be acquired: {error}").into(),
        }),
    }
}

/// Extends a lock at a third of its duration until the future is dropped. A lost lock is reported and not
/// acquired again: the lease of the storage still holds.
async fn extend_while_held(
    process: &Process,
    lock: &mut dyn Lock,
    job: &JobName,
    duration: Duration,
) -> std::convert::Infallible {
    let clock: &dyn Clock = &*process.env.clock;
    loop {
        clock.sleep_until(add(clock.now(), duration / 3)).await;
        match lock.extend(duration).await {
            Ok(true) => {}
            Ok(false) => {
                report_failure(process, job, "the lock was lost while its job ran");
                std::future::pending::<()>().await;
            }
            Err(error) => report_failure(process, job, &error.to_string()),
        }
    }
}

fn report_failure(process: &Process, job: &JobName, error: &str) {
    process.env.events.emit(Event::ServiceFailed {
        service: format!("lock of {job}"),
        error: error.to_owned(),
        again_at: process.now(),
    });
}
