//! Topics and their handlers. Filled while the process is built, then only read: one lookup by name
//! per attempt, no lock. What has no handler here is remembered beside them.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::Unhandled;
use crate::error::{Error, Result};
use crate::handler::AnyHandler;
use crate::model::{HandlerOptions, Topic};
use crate::policy::EffectiveHandlerOptions;
use crate::storage::TopicFilter;

/// Which handler a topic has.
#[derive(Default)]
pub(crate) struct Registry {
    registrations: HashMap<Topic, Registration>,
    /// What this process gives back for want of a handler.
    pub(crate) unhandled: Unhandled,
}

/// A handler and what it says about the attempts of its messages.
#[derive(Clone)]
pub(crate) struct Registration {
    pub(crate) handler: Arc<dyn AnyHandler>,
    pub(crate) handler_options: HandlerOptions,
    /// Whether returning without a report is a failure.
    pub(crate) must_report: bool,
    /// Whether it was registered together with a job.
    pub(crate) of_job: bool,
    /// The terms in force for published messages that say nothing, once they are known.
    pub(crate) usual: OnceLock<Arc<EffectiveHandlerOptions>>,
}

impl Registration {
    pub(crate) fn new(
        handler: Arc<dyn AnyHandler>,
        handler_options: HandlerOptions,
        must_report: bool,
    ) -> Self {
        Self { handler, handler_options, must_report, of_job: false, usual: OnceLock::new() }
    }
}

impl Registry {
    /// Gives a topic its handler; a second one is a mistake.
    pub(crate) fn insert(&mut self, topic: Topic, registration: Registration) -> Result<()> {
        if self.registrations.contains_key(&topic) {
            return Err(Error::conflict(format!(
                "the topic {topic:?} has two handlers; give one of them another topic"
            )));
        }
        self.registrations.insert(topic, registration);
        Ok(())
    }

    /// The handler of a topic.
    pub(crate) fn get(&self, topic: &Topic) -> Option<&Registration> {
        self.registrations.get(topic)
    }

    /// Every topic that has a handler, in no order.
    pub(crate) fn topics(&self) -> impl Iterator<Item = &Topic> {
        self.registrations.keys()
    }

    /// Which topics a claim of this process takes: those that have a handler.
    pub(crate) fn filter(&self) -> TopicFilter {
        TopicFilter::only(self.topics().cloned())
    }

    /// Whether a topic has a handler.
    pub(crate) fn contains(&self, topic: &Topic) -> bool {
        self.registrations.contains_key(topic)
    }
}
