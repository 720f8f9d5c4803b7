//! Subscriptions of a process while it runs: look, pause, resume, add, remove. What is said here holds for
//! this process; another one that receives the same topic as the same group is asked by itself.

use std::sync::Arc;

use crate::engine::{Process, ProcessTasks, Surroundings};
use crate::error::{Error, Result};
use crate::subscription::{Subscribe, SubscriptionName, SubscriptionStatus};

/// Looks at subscriptions and steers them. Cheap to clone.
#[derive(Clone)]
pub struct Subscriptions {
    process: Arc<Process>,
    crew: Arc<ProcessTasks>,
}

impl Subscriptions {
    pub(crate) fn new(process: Arc<Process>, crew: Arc<ProcessTasks>) -> Self {
        Self { process, crew }
    }

    /// How each of them stands, by name.
    pub fn list(&self) -> Vec<SubscriptionStatus> {
        self.process.switchboard.all()
    }

    /// Stops receiving; what is in hand is finished, and nothing is lost. Also before the process is
    /// started.
    pub fn pause(&self, name: &SubscriptionName) -> Result<()> {
        self.process.switchboard.steer(&self.process, name, true)
    }

    /// Receives again.
    pub fn resume(&self, name: &SubscriptionName) -> Result<()> {
        self.process.switchboard.steer(&self.process, name, false)
    }

    /// Receives one more topic, with a handler of its own or with that of the topic. Its name follows from
    /// transport, topic and group alone, and a second subscription of that name is refused. A transport
    /// that is out of reach is tried until it answers.
    pub async fn add(&self, subscribe: Subscribe) -> Result<SubscriptionName> {
        let process = &self.process;
        if !process.options.handling {
            return Err(Error::invalid(
                "this process handles nothing, so it cannot subscribe; see the option `handling`",
            ));
        }
        let unchecked = subscribe.into_unchecked();
        let paused = unchecked.paused;
        let subscribed = Arc::new(unchecked.check(&Surroundings {
            transports: &process.transports,
            registry: &process.registry,
            states: &process.states,
            options: &process.options,
            holds: process.holds,
        })?);
        self.crew.subscribe(process, subscribed, paused).await
    }

    /// Receives a topic no more. What is in hand is finished; what the transport still has for the group
    /// stays there.
    pub fn remove(&self, name: &SubscriptionName) -> Result<()> {
        self.process.switchboard.remove(&self.process, name)
    }
}
