//! Tasks of a process: its services and workers, and the settler they share. Every task is registered here,
//! so that shutdown can wait for all of them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::JoinSet;

use super::subscription::emit_change;
use super::{
    LoopContext, Process, QueueWorker, ServedQueue, Settler, SubscriptionSpec, SubscriptionWorker,
    run, subscribe,
};
use crate::engine::SubscriptionName;
use crate::error::{Error, Result};

/// The tasks of a process.
#[derive(Default)]
pub(crate) struct ProcessTasks {
    tasks: Mutex<JoinSet<()>>,
    settler: Mutex<Option<Settler>>,
}

impl ProcessTasks {
    /// Adds a task.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.lock();
        // Removes tasks that have ended.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    /// Sets the settler: from now on subscriptions and queues can be added.
    pub(crate) fn begin(&self, settler: Settler) {
        *self.settler.lock().unwrap_or_else(PoisonError::into_inner) = Some(settler);
    }

    /// Drops the settler and returns the tasks; its writer ends when every task that has a copy is done.
    pub(crate) fn end(&self) -> JoinSet<()> {
        self.settler.lock().unwrap_or_else(PoisonError::into_inner).take();
        std::mem::take(&mut *self.lock())
    }

    /// Adds a subscription while the process runs.
    pub(crate) async fn subscribe(
        &self,
        process: &Arc<Process>,
        spec: Arc<SubscriptionSpec>,
        paused: bool,
    ) -> Result<SubscriptionName> {
        let settler = self.settler(process)?;
        let name = spec.name.clone();
        let control = process.controls.add(&spec, paused)?;
        let consumer = subscribe(process, &spec).await;
        if let Err(error) = &consumer
            && !error.is_temporary()
        {
            process.controls.forget(&name);
            return consumer.map(|_| name);
        }
        emit_change(process, &name, "added");
        let process = process.clone();
        let worker = SubscriptionWorker::new(process, &settler, spec, control, consumer);
        self.spawn(worker.run());
        Ok(name)
    }

    /// Adds a queue while the process runs.
    pub(crate) fn serve(&self, process: &Arc<Process>, served: ServedQueue) -> Result<()> {
        let worker = QueueWorker::new(process.clone(), self.settler(process)?, served);
        let context = LoopContext::new(process, worker.wakeups());
        self.spawn(run(Box::new(worker), context));
        Ok(())
    }

    /// Returns the settler while the process runs, also while it stops and takes no new work.
    pub(crate) fn settling(&self) -> Result<Settler> {
        let settler = self.settler.lock().unwrap_or_else(PoisonError::into_inner).clone();
        settler.ok_or_else(|| {
            Error::unavailable("the process is not running; start it, or call another process")
        })
    }

    /// Returns the settler while the process runs and takes new work.
    fn settler(&self, process: &Process) -> Result<Settler> {
        let settler = self.settler.lock().unwrap_or_else(PoisonError::into_inner).clone();
        settler.filter(|_| !process.env.stop.is_requested()).ok_or_else(|| {
            Error::conflict(
                "the process is not running, so nothing can be added; give it to the builder, or start first",
            )
        })
    }

    fn lock(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
