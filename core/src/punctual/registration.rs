//! Registration of handlers and jobs in a process: binds handlers to their states, checks them, and refuses duplicate
//! names.

use crate::engine::{Registration, Registry};
use crate::error::{Error, Result};
use crate::handler::{States, UnboundHandler};
use crate::model::{HandlerOptions, Topic};

/// A handler that is not registered yet.
pub(super) struct PendingHandler {
    pub(super) topic: Result<Topic>,
    pub(super) handler: UnboundHandler,
    pub(super) handler_options: HandlerOptions,
    /// Whether it was declared together with a job.
    pub(super) of_job: bool,
}

/// Returns the registry of the handlers, bound to their states.
pub(super) fn registry(handlers: Vec<PendingHandler>, states: &States) -> Result<Registry> {
    let mut registry = Registry::default();
    for PendingHandler { topic, handler, handler_options, of_job } in handlers {
        handler_options.check()?;
        let topic = topic?;
        let (handler, must_report) = handler.bind(states).map_err(|error| {
            Error::invalid(format!("the handler of the topic {topic:?} {error}"))
        })?;
        let registration =
            Registration { of_job, ..Registration::new(handler, handler_options, must_report) };
        registry.insert(topic, registration)?;
    }
    Ok(registry)
}
