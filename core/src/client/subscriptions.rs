//! Subscriptions of a running process: lists, pauses, resumes, adds and removes them. Changes apply to this
//! process only, not to others that receive the same topic as the same group.

use std::sync::Arc;

use crate::engine::{Process, ProcessTasks, SubscriptionContext};
use crate::error::{Error, Result};
use crate::subscription::{Subscribe, SubscriptionName, SubscriptionStatus};

/// Lists and changes the subscriptions of a process. Cheap to clone.
#[derive(Clone)]
pub struct Subscriptions {
    process: Arc<Process>,
    tasks: Arc<ProcessTasks>,
}

impl Subscriptions {
    pub(crate) fn new(process: Arc<Process>, tasks: Arc<ProcessTasks>) -> Self {
        Self { process, tasks }
    }

    /// Returns the status of each subscription, by name.
    pub fn list(&self) -> Vec<SubscriptionStatus> {
        self.process.controls.all()
    }

    /// Pauses a subscription: messages in flight are finished and none is lost. Also possible before the start
    /// of the process.
    pub fn pause(&self, name: &SubscriptionName) -> Result<()> {
        self.process.controls.set_paused(&self.process, name, true)
    }

    /// Resumes a subscription.
    pub fn resume(&self, name: &SubscriptionName) -> Result<()> {
        self.process.controls.set_paused(&self.process, name, false)
    }

    /// Adds a subscription, with its own handler or with that of the topic. Its name consists of transport,
    /// topic and group; a second subscription of that name is refused. While the transport is unreachable the
    /// process retries.
    pub async fn add(&self, subscribe: Subscribe) -> Result<SubscriptionName> {
        let process = &self.process;
        if !process.env.options.handling {
            return Err(Error::invalid(
                "this process does not run handlers, so it cannot subscribe; see the option `handling`",
            ));
        }
        let request = subscribe.into_request();
        let paused = request.paused;
        let spec = Arc::new(request.check(&SubscriptionContext {
            transports: &process.sender.transports,
            registry: &process.runner.registry,
            states: &process.sender.states,
            options: &process.env.options,
            has_storage: process.env.has_storage,
        })?);
        self.tasks.subscribe(process, spec, paused).await
    }

    /// Removes a subscription. Messages in flight are finished; messages that the transport still has for the
    /// group stay there.
    pub fn remove(&self, name: &SubscriptionName) -> Result<()> {
        self.process.controls.remove(&self.process, name)
    }
}
