//! How all jobs are, for lists: put together once for all who look at the same time. What somebody changes on
//! this node shows at once, what happens elsewhere a moment later.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use punctual::status::Status;
use punctual::{Error, Result};

use crate::app::App;

/// What happens to a job that shows at once.
const CHANGES: [&str; 3] = ["job.declared", "job.retired", "job.steered"];

/// How every job is.
pub(crate) async fn statuses(app: &App) -> Result<Arc<Status>> {
    let events = app.punctual.events();
    let changes = CHANGES.iter().map(|name| events.count(name)).sum();
    if app.node().jobs_changed.swap(changes, Ordering::Relaxed) != changes {
        app.node().statuses.forget();
    }
    app.node().statuses.get(&*app.clock, Duration::ZERO, find(app)).await
}

/// Finds it anew where that is costly.
pub(crate) async fn renew(app: &App) -> Result<()> {
    app.node().statuses.renew(&*app.clock, find(app)).await
}

/// An error while the storage does not answer: a list of what this process declares by itself would look like
/// the whole, and be empty where jobs are declared elsewhere.
async fn find(app: &App) -> Result<Arc<Status>> {
    let status = app.punctual.admin().status().await;
    match &status.storage_error {
        Some(error) => Err(Error::unavailable(format!(
            "the storage does not answer, so jobs are not known: {error}"
        ))),
        None => Ok(Arc::new(status)),
    }
}
