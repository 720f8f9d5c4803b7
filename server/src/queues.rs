//! Queue settings of operators: pauses with reasons, and concurrency. Stored as documents and applied by every
//! node; a node on which a setting is changed applies it immediately.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use punctual::backend::documents::{
    DOCUMENTS_MAX, ExpectedVersion, KeyRange, NewDocument, PutResult,
};
use punctual::clock::add;
use punctual::model::{Pause, Queue};
use punctual::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::app::App;

/// The kind of the documents.
pub(crate) const KIND: &str = "queue";
/// Poll interval of changes on other nodes.
const INTERVAL: Duration = Duration::from_secs(1);
/// Attempts of a change under concurrent writes.
const TRIES_MAX: usize = 10;

/// Settings of one queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct QueueSettings {
    /// The last pause, possibly ended.
    pub(crate) paused: Option<Pause>,
    /// How many messages each process handles in parallel.
    pub(crate) concurrency: Option<usize>,
}

impl QueueSettings {
    /// Returns the pause if it has not ended.
    pub(crate) fn pause(&self, now: Timestamp) -> Option<&Pause> {
        self.paused.as_ref().filter(|pause| pause.until.is_none_or(|until| until > now))
    }
}

/// Queues that this node has paused by settings; pauses by the application itself are left unchanged.
#[derive(Debug, Default)]
pub(crate) struct PausedHere {
    paused: Mutex<BTreeSet<Queue>>,
}

/// Returns all settings, by queue.
pub(crate) async fn all_settings(app: &App) -> Result<BTreeMap<Queue, QueueSettings>> {
    let range = KeyRange { limit: DOCUMENTS_MAX, ..KeyRange::default() };
    let documents = app.documents.list(KIND, range, app.clock.now()).await?;
    documents
        .into_iter()
        .map(|document| Ok((Queue::from(document.key), read(document.body)?)))
        .collect()
}

/// Returns the settings of one queue.
pub(crate) async fn settings_of(app: &App, queue: &Queue) -> Result<QueueSettings> {
    let document = app.documents.get(KIND, queue.as_str(), app.clock.now()).await?;
    document.map_or_else(|| Ok(QueueSettings::default()), |document| read(document.body))
}

/// Changes the settings of a queue and applies them on this node; returns the settings before and after.
pub(crate) async fn change_settings(
    app: &App,
    queue: &Queue,
    change: impl Fn(&mut QueueSettings),
) -> Result<(QueueSettings, QueueSettings)> {
    for _ in 0..TRIES_MAX {
        let now = app.clock.now();
        let document = app.documents.get(KIND, queue.as_str(), now).await?;
        let seen = document
            .as_ref()
            .map_or(ExpectedVersion::New, |found| ExpectedVersion::Version(found.version));
        let before =
            document.map_or_else(|| Ok(QueueSettings::default()), |found| read(found.body))?;
        let mut after = before.clone();
        change(&mut after);
        let body = serde_json::to_value(&after).map_err(|error| {
            Error::internal("the settings of a queue cannot be written").caused_by(error)
        })?;
        let draft = NewDocument::new(KIND, queue.as_str(), body);
        if let PutResult::Stored(_) = app.documents.put(draft, seen, now).await? {
            apply_settings(app).await?;
            return Ok((before, after));
        }
    }
    Err(Error::unavailable(format!("the queue {queue:?} was changed concurrently; try again")))
}

/// Applies settings of all nodes until the process stops. Also ends expired pauses.
pub async fn follow(app: App) {
    while !app.punctual.is_stopping() {
        let next = match apply_settings(&app).await {
            Ok(next) => next,
            Err(error) => {
                tracing::warn!(%error, "the settings of queues cannot be read");
                None
            }
        };
        let soon = add(app.clock.now(), INTERVAL);
        app.rest_until(next.map_or(soon, |next| next.min(soon))).await;
    }
}

/// Applies all settings; returns when the next pause ends.
pub(crate) async fn apply_settings(app: &App) -> Result<Option<Timestamp>> {
    let settings = all_settings(app).await?;
    let (now, queues) = (app.clock.now(), app.punctual.queues());
    let here: BTreeMap<Queue, usize> =
        queues.list().into_iter().map(|status| (status.queue, status.concurrency)).collect();
    let to_pause: BTreeSet<Queue> = settings
        .iter()
        .filter(|(_, settings)| settings.pause(now).is_some())
        .map(|(queue, _)| queue.clone())
        .collect();
    let ended = {
        let mut paused_here =
            app.paused_here().paused.lock().unwrap_or_else(PoisonError::into_inner);
        let ended: Vec<Queue> = paused_here.difference(&to_pause).cloned().collect();
        paused_here.clone_from(&to_pause);
        ended
    };
    for queue in &to_pause {
        queues.pause(queue)?;
    }
    for queue in &ended {
        queues.resume(queue)?;
    }
    for (queue, settings) in &settings {
        match (settings.concurrency, here.get(queue)) {
            (Some(concurrency), Some(&present)) if present > 0 && present != concurrency => {
                queues.set_concurrency(queue, concurrency)?;
            }
            _ => {}
        }
    }
    Ok(settings.values().filter_map(|settings| settings.pause(now)?.until).min())
}

fn read(body: serde_json::Value) -> Result<QueueSettings> {
    serde_json::from_value(body).map_err(|error| {
        Error::new(ErrorKind::Corrupt, "the settings of a queue cannot be read").caused_by(error)
    })
}
