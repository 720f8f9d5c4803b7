//! Queues of a running process: lists, pauses and resumes them, and changes their concurrency. Changes apply to
//! this process only and end with it.

pub use crate::engine::QueueStatus;

use std::sync::Arc;

use crate::engine::{Process, ProcessTasks, ServedQueue};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::model::Queue;

/// Lists and changes the queues of a process. Cheap to clone.
///
/// A queue is given by name or as a [`Queue`]: the queue of the relay to a transport, [`Queue::of_relay`], can
/// be paused, too.
#[derive(Clone)]
pub struct Queues {
    process: Arc<Process>,
    tasks: Arc<ProcessTasks>,
}

impl Queues {
    pub(crate) fn new(process: Arc<Process>, tasks: Arc<ProcessTasks>) -> Self {
        Self { process, tasks }
    }

    /// Returns the status of the queues that this process works on and of paused queues, by name.
    pub fn list(&self) -> Vec<QueueStatus> {
        self.process.queues.all()
    }

    /// Pauses a queue: this process claims no messages of it, while running messages continue. Also possible
    /// before the start of the process, and for queues on which only HTTP workers work.
    pub fn pause(&self, queue: impl TryInto<Queue, Error = Error>) -> Result<()> {
        self.set_paused(&queue.try_into()?, true)
    }

    /// Resumes a queue.
    pub fn resume(&self, queue: impl TryInto<Queue, Error = Error>) -> Result<()> {
        self.set_paused(&queue.try_into()?, false)
    }

    /// Changes how many messages of a queue this process handles in parallel. A smaller number takes effect as
    /// running messages end. A serial queue stays serial on all processes together.
    pub fn set_concurrency(
        &self,
        queue: impl TryInto<Queue, Error = Error>,
        concurrency: usize,
    ) -> Result<()> {
        let queue = queue.try_into()?;
        self.process.queues.set_concurrency(&queue, concurrency)?;
        self.emit_change(queue, "resized");
        Ok(())
    }

    /// Starts to work on a queue until the process ends; for a queue it already works on, sets the concurrency.
    /// Fails when the process has not been started.
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
        if !self.process.env.options.handling {
            return Err(Error::invalid(format!(
                "this process does not run handlers, so it cannot work on the queue {queue:?}; give it the role of a worker"
            )));
        }
        if queue.is_reserved() {
            return Err(Error::invalid(format!(
                "the queue {queue:?} belongs to a transport; subscribe to its topic instead"
            )));
        }
        let served = ServedQueue { queue: queue.clone(), concurrency, running_max: None };
        self.tasks.serve(&self.process, served)?;
        self.emit_change(queue, "served");
        Ok(())
    }

    fn set_paused(&self, queue: &Queue, paused: bool) -> Result<()> {
        if self.process.queues.set_paused(queue, paused)? {
            self.emit_change(queue.clone(), if paused { "paused" } else { "resumed" });
        }
        Ok(())
    }

    fn emit_change(&self, queue: Queue, change: &'static str) {
        self.process.env.events.emit(Event::QueueChanged { queue, change });
    }
}
