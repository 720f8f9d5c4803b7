//! Option layers: which layers of options apply to a message of this process, the outermost first: the
//! process, the queue, the handler, the definition of a one-time job, and what the message itself carries.
//! Resolving them is done by [`effective_options`].

use std::collections::HashMap;
use std::sync::Arc;

use super::{OneTimeJob, Registration};
use crate::model::{HandlerOptions, Job, JobName, Message, MessageKind, Queue};
use crate::policy::{EffectiveHandlerOptions, effective_options};

/// Handler options that are set outside of handlers and messages.
#[derive(Default)]
pub(crate) struct OptionLayers {
    /// Options for every message of this process.
    pub(crate) process: HandlerOptions,
    /// Options for every message of a queue.
    pub(crate) queues: HashMap<Queue, HandlerOptions>,
    /// Definitions of one-time jobs, by name.
    pub(crate) deferred: HashMap<JobName, OneTimeJob>,
}

impl OptionLayers {
    /// Returns the options in force for a message, given its handler.
    pub(crate) fn effective(
        &self,
        message: &Message,
        handler: Option<&Registration>,
    ) -> Arc<EffectiveHandlerOptions> {
        let own_kind = MessageKind::of(message);
        if let Some(handler) = handler
            && own_kind == MessageKind::Published
            && message.handler_options.is_none()
            && !self.queues.contains_key(&message.queue)
        {
            // Nearly every message; the result is the same for all of them.
            let resolve = || Arc::new(self.resolve(own_kind, message, Some(handler)));
            return handler.cached_options.get_or_init(resolve).clone();
        }
        Arc::new(self.resolve(own_kind, message, handler))
    }

    fn resolve(
        &self,
        kind: MessageKind,
        message: &Message,
        handler: Option<&Registration>,
    ) -> EffectiveHandlerOptions {
        let kind = match kind {
            // A message published to the handler of a job has the retries of a run of that job.
            MessageKind::Published if handler.is_some_and(|handler| handler.of_job) => {
                MessageKind::RecurringRun
            }
            kind => kind,
        };
        let name = message.occurrence.as_ref().map(|occurrence| &occurrence.job);
        let definition = name
            .filter(|_| kind == MessageKind::OneTimeJob)
            .and_then(|name| self.deferred.get(name))
            .map(OneTimeJob::handler_options);
        let layers = [
            Some(&self.process),
            self.queues.get(&message.queue),
            handler.map(|handler| &handler.handler_options),
            definition,
            message.handler_options.as_deref(),
        ];
        effective_options(kind, layers.into_iter().flatten())
    }

    /// Returns the options in force for the runs of a job.
    pub(crate) fn of_job(
        &self,
        job: &Job,
        handler: Option<&Registration>,
    ) -> EffectiveHandlerOptions {
        let layers = [
            Some(&self.process),
            self.queues.get(&job.queue),
            handler.map(|handler| &handler.handler_options),
            Some(&*job.handler_options),
        ];
        effective_options(MessageKind::RecurringRun, layers.into_iter().flatten())
    }
}
