//! Statuses of all jobs, for lists: computed once for concurrent readers. Changes on this node show immediately,
//! changes on other nodes a moment later.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use punctual::status::Status;
use punctual::{Error, Result};

use crate::app::App;

/// Events after which the statuses are recomputed.
const CHANGES: [&str; 3] = ["job.declared", "job.retired", "job.changed"];

/// Returns the status of every job.
pub(crate) async fn statuses(app: &App) -> Result<Arc<Status>> {
    let events = app.punctual.events();
    let changes = CHANGES.iter().map(|name| events.count(name)).sum();
    if app.node().jobs_changed.swap(changes, Ordering::Relaxed) != changes {
        app.node().statuses.forget();
    }
    app.node().statuses.get(&*app.clock, Duration::ZERO, find(app)).await
}

/// Recomputes the statuses if that is expensive.
pub(crate) async fn renew(app: &App) -> Result<()> {
    app.node().statuses.renew(&*app.clock, find(app)).await
}

/// Reads the statuses. Fails while the storage does not respond: the list of jobs declared by this process alone
/// would look complete, and be empty when other processes declare the jobs.
async fn find(app: &App) -> Result<Arc<Status>> {
    let mut status = app.admin().status().await;
    for last in status.jobs.iter_mut().filter_map(|job| job.last.as_mut()) {
        app.redaction().hide_execution(Arc::make_mut(last));
    }
    match &status.storage_error {
        Some(error) => Err(Error::unavailable(format!(
            "the storage does not respond, so jobs are unknown: {error}"
        ))),
        None => Ok(Arc::new(status)),
    }
}
