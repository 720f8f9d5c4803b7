//! Deletes what the server kept of its own and nobody is shown any more: documents that have expired, and
//! entries of the audit trail that are older than the configuration keeps them. Messages and executions are
//! the engine's to prune.

use std::time::Duration;

use punctual::Result;
use punctual::clock::add;
use punctual::documents::DOCUMENTS_MAX;

use crate::app::App;

/// How often it looks for something to delete.
const INTERVAL: Duration = Duration::from_secs(60);
/// The most calls that delete documents in one turn; what is left waits for the next.
const BATCHES_MAX: usize = 20;
/// The most entries of the audit trail that one turn deletes one by one.
const ENTRIES_MAX: usize = 500;

/// Deletes until the process stops. Every node does, since none knows of the others.
pub(crate) async fn follow(app: App) {
    loop {
        app.rest_until(add(app.clock.now(), INTERVAL)).await;
        if app.punctual.is_stopping() {
            return;
        }
        if let Err(error) = turn(&app).await {
            tracing::warn!(%error, "what has expired cannot be deleted; it is tried again");
        }
    }
}

/// Deletes as much as one turn may.
async fn turn(app: &App) -> Result<()> {
    for _ in 0..BATCHES_MAX {
        let deleted = app.documents.expire(DOCUMENTS_MAX, app.clock.now()).await?;
        if deleted < DOCUMENTS_MAX as u64 {
            break;
        }
    }
    let deleted = app.audit().prune(ENTRIES_MAX).await?;
    if deleted > 0 {
        tracing::info!(deleted, "old entries of the audit trail are deleted");
    }
    Ok(())
}
