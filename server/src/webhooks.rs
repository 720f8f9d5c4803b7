//! Webhooks: events delivered over HTTP. A delivery is a message of the topic `punctual.webhook`, so retries,
//! history and dead letters are those of every message. Events about deliveries are never delivered themselves,
//! to avoid a loop.

mod deliver;
mod notice;

use std::sync::atomic::Ordering;

use jiff::Timestamp;
use punctual::backend::documents::{
    DOCUMENTS_MAX, Document, DocumentStore, ExpectedVersion, KeyRange, NewDocument, PutResult,
};
use punctual::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use deliver::Webhooks;
pub(crate) use notice::{follow, test};

use crate::app::App;

/// The topic of deliveries.
pub const WEBHOOK_TOPIC: &str = "punctual.webhook";
/// The queue of deliveries, so that a slow receiver delays no other messages.
pub const WEBHOOK_QUEUE: &str = "punctual.webhook";

/// The kind of the documents.
pub(crate) const KIND: &str = "webhook";
/// Attempts of a change under concurrent writes.
const TRIES_MAX: usize = 10;
/// Largest number of webhooks.
pub(crate) const WEBHOOKS_MAX: usize = 200;

/// A webhook with its state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Webhook {
    pub(crate) id: String,
    pub(crate) url: String,
    pub(crate) events: Vec<String>,
    #[serde(default)]
    pub(crate) filter: Filter,
    /// The key that deliveries are signed with.
    pub(crate) secret: String,
    pub(crate) enabled: bool,
    pub(crate) disabled_reason: Option<String>,
    /// Number of consecutive failed attempts.
    pub(crate) failures: u32,
    pub(crate) created_at: Timestamp,
    pub(crate) last_at: Option<Timestamp>,
    pub(crate) last_status: Option<u16>,
    /// The error of the last failed attempt.
    #[serde(default)]
    pub(crate) last_error: Option<String>,
}

/// Filter of the events of the chosen kinds; empty for all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Filter {
    /// Only events of this job.
    pub(crate) job: Option<String>,
    /// Only events of this topic.
    pub(crate) topic: Option<String>,
    /// Only events of this queue.
    pub(crate) queue: Option<String>,
}

/// Returns all webhooks, ordered by id.
pub(crate) async fn all(app: &App) -> Result<Vec<Webhook>> {
    let range = KeyRange { limit: WEBHOOKS_MAX.min(DOCUMENTS_MAX), ..KeyRange::default() };
    let documents = app.documents.list(KIND, range, app.clock.now()).await?;
    documents.into_iter().map(read).collect()
}

/// Returns a webhook.
pub(crate) async fn get(
    documents: &dyn DocumentStore,
    id: &str,
    now: Timestamp,
) -> Result<Option<Webhook>> {
    documents.get(KIND, id, now).await?.map(read).transpose()
}

/// Stores a new webhook.
pub(crate) async fn create(app: &App, webhook: &Webhook) -> Result<()> {
    let draft = draft(webhook)?;
    app.documents.put_all(vec![draft], app.clock.now()).await?;
    changed(app);
    Ok(())
}

/// Changes a webhook; returns it before and after, or none when it does not exist.
pub(crate) async fn change(
    documents: &dyn DocumentStore,
    id: &str,
    now: Timestamp,
    change: impl Fn(&mut Webhook),
) -> Result<Option<(Webhook, Webhook)>> {
    for _ in 0..TRIES_MAX {
        let Some(document) = documents.get(KIND, id, now).await? else { return Ok(None) };
        let expected = ExpectedVersion::Version(document.version);
        let before = read(document)?;
        let mut after = before.clone();
        change(&mut after);
        if let PutResult::Stored(_) = documents.put(draft(&after)?, expected, now).await? {
            return Ok(Some((before, after)));
        }
    }
    Err(Error::unavailable(format!("the webhook {id:?} was changed concurrently; try again")))
}

/// Deletes a webhook; returns whether it existed.
pub(crate) async fn remove(app: &App, id: &str) -> Result<bool> {
    let removed = app.documents.remove(KIND, id, ExpectedVersion::Any).await?;
    changed(app);
    Ok(removed == punctual::backend::documents::RemoveResult::Removed)
}

/// Invalidates the cached webhooks of this node.
pub(crate) fn changed(app: &App) {
    app.node().webhooks_changed.fetch_add(1, Ordering::Relaxed);
}

fn draft(webhook: &Webhook) -> Result<NewDocument> {
    let body = serde_json::to_value(webhook)
        .map_err(|error| Error::internal("a webhook cannot be written").caused_by(error))?;
    Ok(NewDocument::new(KIND, &webhook.id, body))
}

fn read(document: Document) -> Result<Webhook> {
    serde_json::from_value(document.body).map_err(|error| {
        let sentence = format!("the webhook {:?} cannot be read", document.key);
        Error::new(ErrorKind::Corrupt, sentence).caused_by(error)
    })
}
