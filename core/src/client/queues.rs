//! The queues of a process while it runs: look, pause, resume, work on more or on fewer at once. What is
//! said here holds for this process and ends with it; other processes are asked by themselves.

use std::sync::Arc;

pub use crate::engine::QueueStatus;
use crate::engine::{Process, ProcessTasks, Worked};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::model::Queue;

/// Looks at queues and steers them. Cheap to clone.
///
/// A queue is named by its text, or by a [`Queue`]: the line in which messages wait for the relay to a
/// transport, [`Queue::of_relay`], can be paused too.
#[derive(Clone)]
pub struct Queues {
    process: Arc<Process>,
    crew: Arc<ProcessTasks>,
}

impl Queues {
    pub(crate) fn new(process: Arc<Process>, crew: Arc<ProcessTasks>) -> Self {
        Self { process, crew }
    }

    /// How each stands, by name: those this process works on, and those that are paused.
    pub fn list(&self) -> Vec<QueueStatus> {
        self.process.queues.all()
    }

    /// From now on nothing of the queue is claimed by way of this process; what runs goes on, and
    /// messages wait. Also before the process is started, and for queues that only others work on.
    pub fn pause(&self, queue: impl TryInto<Queue, Error = Error>) -> Result<()> {
        self.switch(&queue.try_into()?, true)
    }

    /// Claims again.
    pub fn resume(&self, queue: impl TryInto<Queue, Error = Error>) -> Result<()> {
        self.switch(&queue.try_into()?, false)
    }

    /// Changes how many of its messages this process handles at once. Fewer take effect as those that
    /// run end. A queue that is handled in order stays so on all processes together.
    pub fn set_concurrency(
        &self,
        queue: impl TryInto<Queue, Error = Error>,
        concurrency: usize,
    ) -> Result<()> {
        let queue = queue.try_into()?;
        self.process.queues.set_concurrency(&queue, concurrency)?;
        self.tell(queue, "resized");
        Ok(())
    }

    /// Works on one more queue, until the process ends; one that it works on already gets the
    /// concurrency. The process must have been started.
    pub fn serve(
        &self,
        queue: impl TryInto<Queue, Error = Error>,
        concurrency: usize,
    ) -> Result<()> {
        let queue = queue.try_into()?;
        if self.process.queues.serves(&queue) {
            return self.set_concurrency(&queue, concurrency);
        }
        if concurrency == 0 {
            return Err(Error::invalid(format!(
                "the queue {queue:?} has concurrency 0; it must be at least 1"
            )));
        }
        if !self.process.options.handling {
            return Err(Error::invalid(format!(
                "this process handles nothing, so it cannot work on the queue {queue:?}; give it the role of a worker"
            )));
        }
        if queue.is_reserved() {
            return Err(Error::invalid(format!(
                "the line {queue:?} belongs to a transport; subscribe to its topic instead"
            )));
        }
        let worked = Worked { queue: queue.clone(), concurrency, running_max: None };
        self.crew.serve(&self.process, worked)?;
        self.tell(queue, "served");
        Ok(())
    }

    fn switch(&self, queue: &Queue, paused: bool) -> Result<()> {
        if self.process.queues.set_paused(queue, paused)? {
            self.tell(queue.clone(), if paused { "paused" } else { "resumed" });
        }
        Ok(())
    }

    fn tell(&self, queue: Queue, change: &'static str) {
        self.process.events.emit(Event::QueueSteered { queue, change });
    }
}
