//! Pruner: deletes expired documents, and entries of the audit trail older than the configured retention.
//! Messages and executions are pruned by the engine.

use std::time::Duration;

use punctual::Result;
use punctual::backend::documents::DOCUMENTS_MAX;
use punctual::clock::add;

use crate::app::App;

/// Interval of the pruner.
const INTERVAL: Duration = Duration::from_secs(60);
/// Largest number of delete calls per run; the rest waits for the next run.
const BATCHES_MAX: usize = 20;
/// Largest number of audit entries deleted per run.
const ENTRIES_MAX: usize = 500;

/// Runs the pruner until the process stops, on every node.
pub(crate) async fn follow(app: App) {
    loop {
        app.rest_until(add(app.clock.now(), INTERVAL)).await;
        if app.punctual.is_stopping() {
            return;
        }
        if let Err(error) = prune(&app).await {
            tracing::warn!(%error, "expired documents could not be deleted; retrying");
        }
    }
}

/// Deletes up to the limits of one run.
async fn prune(app: &App) -> Result<()> {
    for _ in 0..BATCHES_MAX {
        let deleted = app.documents.expire(DOCUMENTS_MAX, app.clock.now()).await?;
        if deleted < DOCUMENTS_MAX as u64 {
            break;
        }
    }
    let deleted = app.audit().prune(ENTRIES_MAX).await?;
    if deleted > 0 {
        tracing::info!(deleted, "deleted old entries of the audit trail");
    }
    Ok(())
}
