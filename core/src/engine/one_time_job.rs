//! One-time job: the definition of the one-time jobs of a name, with default retries, timeout, queue and
//! priority.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::model::{HandlerOptions, JobName, Priority, Queue, Retry};

/// The definition of the one-time jobs of a name, given to
/// [`Builder::one_time_job`](crate::Builder::one_time_job). A process that plans such a job takes queue and
/// priority from it; a process that runs it takes the options that the message does not set.
#[derive(Clone, Debug)]
#[must_use = "a definition does nothing until it is given to the builder"]
pub struct OneTimeJob {
    name: String,
    handler_options: HandlerOptions,
    queue: Option<Result<Queue, String>>,
    priority: Option<Result<Priority, String>>,
}

impl OneTimeJob {
    /// Creates a definition for the one-time jobs of a name.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            handler_options: HandlerOptions::default(),
            queue: None,
            priority: None,
        }
    }

    /// Sets how often a failed run is retried; the delays are proportional to the time between planning and
    /// due time.
    pub fn retries_max(self, retries: u32) -> Self {
        self.retry(Retry::proportional().retries_max(retries))
    }

    /// Sets the retries of a failed run.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.handler_options.retry = Some(retry);
        self
    }

    /// Sets the timeout of a run.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.handler_options.timeout = Some(timeout);
        self
    }

    /// Sets more options; those set before stay unless `handler_options` sets them.
    pub fn with_handler_options(mut self, handler_options: &HandlerOptions) -> Self {
        self.handler_options = self.handler_options.overlaid(handler_options);
        self
    }

    /// Sets the queue they wait in.
    pub fn queue(mut self, queue: impl AsRef<str>) -> Self {
        self.queue = Some(Queue::new(queue).map_err(|error| error.to_string()));
        self
    }

    /// Sets their priority, 0 (last) to 9 (first).
    pub fn priority(mut self, level: u8) -> Self {
        self.priority = Some(Priority::new(level).map_err(|error| error.to_string()));
        self
    }

    pub(crate) fn handler_options(&self) -> &HandlerOptions {
        &self.handler_options
    }

    pub(crate) fn place(&self) -> (Option<Queue>, Option<Priority>) {
        let queue = self.queue.as_ref().and_then(|queue| queue.as_ref().ok());
        let priority = self.priority.as_ref().and_then(|priority| priority.as_ref().ok());
        (queue.cloned(), priority.copied())
    }

    /// Returns the name and the definition; fails with the name and the field that is wrong.
    pub(crate) fn checked(self) -> Result<(JobName, Self)> {
        let refuse = |field: &str, error: &dyn std::fmt::Display| {
            let name = &self.name;
            Error::invalid(format!("the one-time job {name:?} cannot be defined: {field}: {error}"))
        };
        let name = JobName::new(&self.name).map_err(|error| refuse("name", &error))?;
        self.handler_options.check().map_err(|error| refuse("retry", &error))?;
        if let Some(Err(error)) = &self.queue {
            return Err(refuse("queue", error));
        }
        if let Some(Err(error)) = &self.priority {
            return Err(refuse("priority", error));
        }
        Ok((name, self))
    }
}
