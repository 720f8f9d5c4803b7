//! Open file exhaustion: a target that cannot open a file waits and uses no attempt, because nothing is wrong
//! with the target.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::time::Duration;

use punctual::{Context, HandlerError, HandlerResult, Outcome};

/// Delay until a target is tried again.
const WAIT: Duration = Duration::from_secs(5);
/// Error codes of "too many open files" of this process and of the system. The same on every Unix.
const EXHAUSTED: [i32; 2] = [24, 23];
/// Largest number of causes of an error that are followed.
const CAUSES_MAX: usize = 16;

/// Error of a target that was not run because no file could be opened.
#[derive(Debug)]
struct NoFiles(String);

impl fmt::Display for NoFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for NoFiles {}

/// Returns the error of a target that could not be started.
pub(super) fn start_error(
    text: impl FnOnce(&io::Error) -> String,
    error: &io::Error,
) -> HandlerError {
    let text = text(error);
    if is_exhausted(error) { HandlerError::from(NoFiles(text)) } else { HandlerError::new(text) }
}

/// Returns the `NoFiles` error, if it is the cause of a failure.
pub(super) fn exhausted(error: &(dyn StdError + 'static)) -> Option<HandlerError> {
    let mut cause = Some(error);
    for _ in 0..CAUSES_MAX {
        let current = cause?;
        if let Some(error) = current.downcast_ref::<io::Error>()
            && is_exhausted(error)
        {
            return Some(HandlerError::from(NoFiles(error.to_string())));
        }
        cause = current.source();
    }
    None
}

fn is_exhausted(error: &io::Error) -> bool {
    cfg!(unix) && error.raw_os_error().is_some_and(|code| EXHAUSTED.contains(&code))
}

/// Returns whether a target was not run because no file could be opened.
pub(crate) fn lacks_files(error: &HandlerError) -> bool {
    error.downcast_ref::<NoFiles>().is_some()
}

/// Turns a `NoFiles` error into a snooze, which uses no attempt.
pub(crate) fn snooze_without_files(result: HandlerResult, context: &Context) -> HandlerResult {
    match result {
        Err(error) if lacks_files(&error) => {
            tracing::warn!(message = %context.message_id(), %error, "a target is delayed: too many open files");
            context.log(format!("{error}; retried in {WAIT:?} without using an attempt"));
            Ok(Outcome::Snooze(WAIT))
        }
        result => result,
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use punctual::clock::{Clock, add, within};
    use punctual::inspect::{ExecutionFilter, Inspect, PageRequest};
    use punctual::model::{Ending, HandlerOptions, MessageState};
    use punctual::{MemoryStorage, Punctual, Retry, SystemClock};
    use reqwest::dns::{Name, Resolve, Resolving};
    use serde_json::json;

    use super::super::TargetServices;
    use super::*;
    use crate::config::Config;
    use crate::spec::{Target, Work};

    #[test]
    fn only_exhausted_files_are_snoozed() {
        for (code, lacks) in [(24, true), (23, true), (2, false), (13, false)] {
            let error = io::Error::from_raw_os_error(code);
            let failed =
                start_error(|error| format!("\"date\" cannot be started: {error}"), &error);
            assert_eq!(lacks_files(&failed), lacks, "{code}");
            assert!(failed.text().starts_with("\"date\" cannot be started: "), "{failed}");
        }
    }

    /// Fails to resolve names for lack of open files.
    struct Exhausted;

    impl Resolve for Exhausted {
        fn resolve(&self, _: Name) -> Resolving {
            Box::pin(async { Err(io::Error::from_raw_os_error(24).into()) })
        }
    }

    fn services() -> TargetServices {
        let mut config = Config::default();
        config.command.enabled = true;
        let mut services = TargetServices::new(&config, Arc::new(SystemClock)).unwrap();
        services.spawn = |_| Err(io::Error::from_raw_os_error(24));
        services.client = reqwest::Client::builder()
            .no_proxy()
            .dns_resolver(Arc::new(Exhausted))
            .build()
            .unwrap();
        services
    }

    // Finding F4 of the security review.
    #[tokio::test]
    async fn a_target_without_open_files_waits_and_uses_no_attempt() {
        let clock = Arc::new(SystemClock);
        let storage = Arc::new(MemoryStorage::new(clock.clone()));
        let builder = Punctual::builder().storage(storage.clone());
        let punctual = services().register(builder).build().unwrap();
        punctual.start().await.unwrap();
        for target in [
            json!({"command": {"program": "/bin/true"}}),
            json!({"http": {"url": "https://name.example/"}}),
        ] {
            let target: Target = serde_json::from_value(target).unwrap();
            let work = Work { target, payload: None };
            let topic = work.target.topic().unwrap();
            // Without retries: an attempt that counts would be the last one.
            let handler_options =
                HandlerOptions { retry: Some(Retry::none()), ..HandlerOptions::default() };
            let published = punctual
                .publisher()
                .publish(topic, &work)
                .handler_options(handler_options)
                .await
                .unwrap();
            let filter =
                || ExecutionFilter { message: Some(published.id), ..ExecutionFilter::default() };
            let tried = async {
                loop {
                    let found = storage.executions(filter(), PageRequest::first(1)).await.unwrap();
                    if let Some(execution) = found.rows.into_iter().next() {
                        return execution;
                    }
                    clock.sleep_until(add(clock.now(), Duration::from_millis(20))).await;
                }
            };
            let until = add(clock.now(), Duration::from_secs(60));
            let execution = within(&*clock, until, tried).await.unwrap();
            assert_eq!(execution.ending, Ending::Snoozed, "{execution:?}");
            let message = storage.message(published.id).await.unwrap().unwrap();
            assert_eq!((message.state, message.attempt), (MessageState::Pending, 0), "{message:?}");
        }
        punctual.shutdown().await;
    }
}
