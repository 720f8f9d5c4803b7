//! Everybody who works for a process: the tasks of its services and workers, and the settler they share.
//! A task is in here or it does not exist, so shutdown can wait for all of them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::JoinSet;

use super::subscription::told;
use super::{
    Pace, Process, QueueWorker, Settler, Subscribed, SubscriptionWorker, Worked, run, subscribe,
};
use crate::error::{Error, Result};
use crate::subscription::SubscriptionName;

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
        // Those that have ended are forgotten on the way.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    /// Begins: from now on subscriptions can be added.
    pub(crate) fn begin(&self, settler: Settler) {
        *self.settler.lock().unwrap_or_else(PoisonError::into_inner) = Some(settler);
    }

    /// Ends: nobody settles any more once those who have a settler are done.
    pub(crate) fn end(&self) -> JoinSet<()> {
        self.settler.lock().unwrap_or_else(PoisonError::into_inner).take();
        std::mem::take(&mut *self.lock())
    }

    /// Adds a subscription while the process runs.
    pub(crate) async fn subscribe(
        &self,
        process: &Arc<Process>,
        subscribed: Arc<Subscribed>,
        paused: bool,
    ) -> Result<SubscriptionName> {
        let settler = self.settler(process)?;
        let name = subscribed.name.clone();
        let control = process.switchboard.add(&subscribed, paused)?;
        let consumer = subscribe(process, &subscribed).await;
        if let Err(error) = &consumer
            && !error.is_temporary()
        {
            process.switchboard.forget(&name);
            return consumer.map(|_| name);
        }
        told(process, &name, "added");
        let process = process.clone();
        let worker = SubscriptionWorker::new(process, &settler, subscribed, control, consumer);
        self.spawn(worker.run());
        Ok(name)
    }

    /// Works on one more queue while the process runs.
    pub(crate) fn serve(&self, process: &Arc<Process>, worked: Worked) -> Result<()> {
        let worker = QueueWorker::new(process.clone(), self.settler(process)?, worked);
        let pace = Pace::new(process, worker.wakeups());
        self.spawn(run(Box::new(worker), pace));
        Ok(())
    }

    /// The settler, while the process runs: also while it stops and takes no new work.
    pub(crate) fn settling(&self) -> Result<Settler> {
        let settler = self.settler.lock().unwrap_or_else(PoisonError::into_inner).clone();
        settler.ok_or_else(|| {
            Error::unavailable("the process does not run; start it, or ask another one")
        })
    }

    /// The settler, while the process runs and takes new work.
    fn settler(&self, process: &Process) -> Result<Settler> {
        let settler = self.settler.lock().unwrap_or_else(PoisonError::into_inner).clone();
        settler.filter(|_| !process.stop.is_requested()).ok_or_else(|| {
            Error::conflict(
                "the process does not run, so nothing can be added; give it to the builder, or start first",
            )
        })
    }

    fn lock(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
