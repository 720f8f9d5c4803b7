//! Default handler options of the builder: for the whole process, for a queue, and for the one-time jobs of a name.

use super::Builder;
use crate::client::OneTimeJob;
use crate::engine::OptionLayers;
use crate::error::{Error, Result};
use crate::model::{HandlerOptions, Queue};

/// The options of a builder, checked by `build`.
#[derive(Default)]
pub(super) struct DefaultOptions {
    process: HandlerOptions,
    queues: Vec<(String, HandlerOptions)>,
    deferred: Vec<OneTimeJob>,
}

impl DefaultOptions {
    pub(super) fn check(self) -> Result<OptionLayers> {
        self.process.check()?;
        let mut layers = OptionLayers { process: self.process, ..OptionLayers::default() };
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
    /// Sets the options of every message this process handles. Queue, handler, definition and message override
    /// them.
    pub fn handler_options(mut self, handler_options: HandlerOptions) -> Self {
        self.handler_options.process = handler_options;
        self
    }

    /// Sets the options of every message of a queue. Handler, definition and message override them.
    pub fn queue_options(
        mut self,
        queue: impl Into<String>,
        handler_options: HandlerOptions,
    ) -> Self {
        self.handler_options.queues.push((queue.into(), handler_options));
        self
    }

    /// Defines the one-time jobs of a name: the defaults of [`Jobs::once`](crate::client::Jobs::once) with this
    /// name.
    ///
    /// ```
    /// use std::time::Duration;
    /// use punctual::{OneTimeJob, Punctual};
    ///
    /// let punctual = Punctual::builder()
    ///     .one_time_job(OneTimeJob::new("payment-timeout").retries_max(2).timeout(Duration::from_secs(30)))
    ///     .handler("payment-timeout", async |_: u64| ())
    ///     .build();
    /// assert!(punctual.is_ok());
    /// ```
    pub fn one_time_job(mut self, definition: OneTimeJob) -> Self {
        self.handler_options.deferred.push(definition);
        self
    }
}
