//! Term layers: which layers of options apply to a message of this process, the outermost first: the
//! process, the queue, the handler, the definition of a one-time job, and what the message itself carries.
//! Resolving them is done by [`effective_terms`].

use std::collections::HashMap;
use std::sync::Arc;

use super::Registration;
use crate::client::OneTimeJob;
use crate::model::{Job, JobName, Message, Queue, Terms};
use crate::policy::{EffectiveTerms, MessageKind, effective_terms};

/// What is said about attempts outside of handlers and messages.
#[derive(Default)]
pub(crate) struct TermLayers {
    /// For every message of this process.
    pub(crate) process: Terms,
    /// For every message of a queue.
    pub(crate) queues: HashMap<Queue, Terms>,
    /// For every one-time job of a name.
    pub(crate) deferred: HashMap<JobName, OneTimeJob>,
}

impl TermLayers {
    /// Returns the terms in force for a message, given its handler.
    pub(crate) fn effective(
        &self,
        message: &Message,
        handler: Option<&Registration>,
    ) -> Arc<EffectiveTerms> {
        let own_kind = MessageKind::of(message);
        if let Some(handler) = handler
            && own_kind == MessageKind::Published
            && message.terms.is_none()
            && !self.queues.contains_key(&message.queue)
        {
            // Nearly every message: the same for all of them.
            let usual = || Arc::new(self.resolve(own_kind, message, Some(handler)));
            return handler.usual.get_or_init(usual).clone();
        }
        Arc::new(self.resolve(own_kind, message, handler))
    }

    fn resolve(
        &self,
        kind: MessageKind,
        message: &Message,
        handler: Option<&Registration>,
    ) -> EffectiveTerms {
        let kind = match kind {
            // What is published to the handler of a job is a run of it, as far as retries go.
            MessageKind::Published if handler.is_some_and(|handler| handler.of_job) => {
                MessageKind::RecurringRun
            }
            kind => kind,
        };
        let name = message.occurrence.as_ref().map(|occurrence| &occurrence.job);
        let definition = name
            .filter(|_| kind == MessageKind::OneTimeJob)
            .and_then(|name| self.deferred.get(name))
            .map(OneTimeJob::terms);
        let layers = [
            Some(&self.process),
            self.queues.get(&message.queue),
            handler.map(|handler| &handler.terms),
            definition,
            message.terms.as_deref(),
        ];
        effective_terms(kind, layers.into_iter().flatten())
    }

    /// Returns the terms in force for the runs of a job.
    pub(crate) fn of_job(&self, job: &Job, handler: Option<&Registration>) -> EffectiveTerms {
        let layers = [
            Some(&self.process),
            self.queues.get(&job.queue),
            handler.map(|handler| &handler.terms),
            Some(&*job.terms),
        ];
        effective_terms(MessageKind::RecurringRun, layers.into_iter().flatten())
    }
}
