//! Registry of topics and their handlers. Filled while the process is built, then only read: one lookup by
//! name per attempt, no lock. Beside it, messages without a handler are remembered.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::Unhandled;
use crate::error::{Error, Result};
use crate::handler::AnyHandler;
use crate::model::{HandlerOptions, Topic};
use crate::policy::EffectiveHandlerOptions;
use crate::storage::TopicFilter;

/// Handlers by topic.
#[derive(Default)]
pub(crate) struct Registry {
    registrations: HashMap<Topic, Registration>,
    /// Messages that this process released because they had no handler.
    pub(crate) unhandled: Unhandled,
}

/// A handler and its options for the attempts of its messages.
#[derive(Clone)]
pub(crate) struct Registration {
    pub(crate) handler: Arc<dyn AnyHandler>,
    pub(crate) handler_options: HandlerOptions,
    /// Whether returning without a report is a failure.
    pub(crate) must_report: bool,
    /// Whether it was registered together with a job.
    pub(crate) of_job: bool,
    /// Options in force for published messages without options of their own, once resolved.
    pub(crate) cached_options: OnceLock<Arc<EffectiveHandlerOptions>>,
}

impl Registration {
    pub(crate) fn new(
        handler: Arc<dyn AnyHandler>,
        handler_options: HandlerOptions,
        must_report: bool,
    ) -> Self {
        Self {
            handler,
            handler_options,
            must_report,
            of_job: false,
            cached_options: OnceLock::new(),
        }
    }
}

impl Registry {
    /// Registers the handler of a topic; fails when the topic has one.
    pub(crate) fn insert(&mut self, topic: Topic, registration: Registration) -> Result<()> {
        if self.registrations.contains_key(&topic) {
            return Err(Error::conflict(format!(
                "the topic {topic:?} has two handlers; give one of them another topic"
            )));
        }
        self.registrations.insert(topic, registration);
        Ok(())
    }

    /// Returns the handler of a topic.
    pub(crate) fn get(&self, topic: &Topic) -> Option<&Registration> {
        self.registrations.get(topic)
    }

    /// Returns every topic that has a handler, in no order.
    pub(crate) fn topics(&self) -> impl Iterator<Item = &Topic> {
        self.registrations.keys()
    }

    /// Returns the filter for claims of this process: the topics that have a handler.
    pub(crate) fn filter(&self) -> TopicFilter {
        TopicFilter::only(self.topics().cloned())
    }

    /// Returns whether a topic has a handler.
    pub(crate) fn contains(&self, topic: &Topic) -> bool {
        self.registrations.contains_key(topic)
    }
}
