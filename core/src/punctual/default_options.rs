//! Handler options given to the builder beside those of handlers and jobs: for the whole process, for a queue, and for
//! the one-time jobs of a name.

use super::Builder;
use crate::client::OneTimeJob;
use crate::engine::TermLayers;
use crate::error::{Error, Result};
use crate::model::{HandlerOptions, Queue};

/// What was given, checked by `build`.
#[derive(Default)]
pub(super) struct DefaultOptions {
    process: HandlerOptions,
    queues: Vec<(String, HandlerOptions)>,
    deferred: Vec<OneTimeJob>,
}

impl DefaultOptions {
    pub(super) fn check(self) -> Result<TermLayers> {
        self.process.check()?;
        let mut layers = TermLayers { process: self.process, ..TermLayers::default() };
        for (name, handler_options) in self.queues {
            handler_options.check()?;
            let queue = Queue::new(&name)?;
            if layers.queues.insert(queue, handler_options).is_some() {
                return Err(Error::conflict(format!(
                    "the queue {name:?} has options twice; give them in one call of queue_options()"
                )));
            }
        }
        for definition in self.deferred {
            let (name, definition) = definition.checked()?;
            if layers.deferred.insert(name.clone(), definition).is_some() {
                return Err(Error::conflict(format!(
                    "the one-time job {name:?} is defined twice; remove one of the definitions"
                )));
            }
        }
        Ok(layers)
    }
}

impl Builder {
    /// Sets the terms of every message this process handles, where queue, handler, definition and message
    /// say nothing else.
    pub fn handler_options(mut self, handler_options: HandlerOptions) -> Self {
        self.handler_options.process = handler_options;
        self
    }

    /// Sets the terms of every message of a queue, where handler, definition and message say nothing else.
    pub fn queue_options(
        mut self,
        queue: impl Into<String>,
        handler_options: HandlerOptions,
    ) -> Self {
        self.handler_options.queues.push((queue.into(), handler_options));
        self
    }

    /// Defines the one-time jobs of a name: what [`Jobs::once`](crate::client::Jobs::once) with this name
    /// need not say.
    ///
    /// ```
    /// use std::time::Duration;
    /// use punctual::{OneTimeJob, Punctual};
    ///
    /// let punctual = Punctual::builder()
    ///     .one_time_job(OneTimeJob::new("payment-timeout").max_retries(2).timeout(Duration::from_secs(30)))
    ///     .handler("payment-timeout", async |_: u64| ())
    ///     .build();
    /// assert!(punctual.is_ok());
    /// ```
    pub fn one_time_job(mut self, definition: OneTimeJob) -> Self {
        self.handler_options.deferred.push(definition);
        self
    }
}
