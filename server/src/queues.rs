//! What operators said about queues: paused, and why; how many at once. Kept as documents, so that every
//! node obeys; each follows them, and a node on which something is said obeys at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use punctual::clock::add;
use punctual::documents::{DOCUMENTS_MAX, ExpectedVersion, KeyRange, NewDocument, PutResult};
use punctual::model::{Pause, Queue};
use punctual::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::app::App;

/// The kind of the documents.
pub(crate) const KIND: &str = "queue";
/// How long a node may take to hear of what was said on another.
const INTERVAL: Duration = Duration::from_secs(1);
/// How often a change is tried again when others write at the same time.
const TRIES_MAX: usize = 10;

/// What operators said about one queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Said {
    /// The pause, also one that has ended.
    pub(crate) paused: Option<Pause>,
    /// How many each process that works on it handles at once.
    pub(crate) concurrency: Option<usize>,
}

impl Said {
    /// The pause, while it holds.
    pub(crate) fn pause(&self, now: Timestamp) -> Option<&Pause> {
        self.paused.as_ref().filter(|pause| pause.until.is_none_or(|until| until > now))
    }
}

/// The queues this node has paused because operators said so; what the application itself paused is left
/// alone.
#[derive(Debug, Default)]
pub(crate) struct Ours {
    paused: Mutex<BTreeSet<Queue>>,
}

/// Everything that was said, by queue.
pub(crate) async fn said(app: &App) -> Result<BTreeMap<Queue, Said>> {
    let range = KeyRange { limit: DOCUMENTS_MAX, ..KeyRange::default() };
    let documents = app.documents.list(KIND, range, app.clock.now()).await?;
    documents
        .into_iter()
        .map(|document| Ok((Queue::from(document.key), read(document.body)?)))
        .collect()
}

/// What was said about one queue.
pub(crate) async fn said_of(app: &App, queue: &Queue) -> Result<Said> {
    let document = app.documents.get(KIND, queue.as_str(), app.clock.now()).await?;
    document.map_or_else(|| Ok(Said::default()), |document| read(document.body))
}

/// Changes what is said about a queue and obeys here; answers how it was before, and how it is.
pub(crate) async fn say(
    app: &App,
    queue: &Queue,
    change: impl Fn(&mut Said),
) -> Result<(Said, Said)> {
    for _ in 0..TRIES_MAX {
        let now = app.clock.now();
        let document = app.documents.get(KIND, queue.as_str(), now).await?;
        let seen = document
            .as_ref()
            .map_or(ExpectedVersion::New, |found| ExpectedVersion::Version(found.version));
        let before = document.map_or_else(|| Ok(Said::default()), |found| read(found.body))?;
        let mut after = before.clone();
        change(&mut after);
        let body = serde_json::to_value(&after)
            .map_err(|error| Error::internal("a queue cannot be written").caused_by(error))?;
        let draft = NewDocument::new(KIND, queue.as_str(), body);
        if let PutResult::Stored(_) = app.documents.put(draft, seen, now).await? {
            obey(app).await?;
            return Ok((before, after));
        }
    }
    Err(Error::unavailable(format!("the queue {queue:?} kept changing; try again")))
}

/// Obeys what was said on any node, until the process stops. A pause ends here by itself.
pub async fn follow(app: App) {
    while !app.punctual.is_stopping() {
        let next = match obey(&app).await {
            Ok(next) => next,
            Err(error) => {
                tracing::warn!(%error, "the pauses of queues cannot be read");
                None
            }
        };
        let soon = add(app.clock.now(), INTERVAL);
        app.rest_until(next.map_or(soon, |next| next.min(soon))).await;
    }
}

/// Does what is said; answers when the next pause ends.
pub(crate) async fn obey(app: &App) -> Result<Option<Timestamp>> {
    let said = said(app).await?;
    let (now, queues) = (app.clock.now(), app.punctual.queues());
    let here: BTreeMap<Queue, usize> =
        queues.list().into_iter().map(|status| (status.queue, status.concurrency)).collect();
    let wanted: BTreeSet<Queue> = said
        .iter()
        .filter(|(_, said)| said.pause(now).is_some())
        .map(|(queue, _)| queue.clone())
        .collect();
    let ended = {
        let mut ours = app.ours().paused.lock().unwrap_or_else(PoisonError::into_inner);
        let ended: Vec<Queue> = ours.difference(&wanted).cloned().collect();
        ours.clone_from(&wanted);
        ended
    };
    for queue in &wanted {
        queues.pause(queue)?;
    }
    for queue in &ended {
        queues.resume(queue)?;
    }
    for (queue, said) in &said {
        match (said.concurrency, here.get(queue)) {
            (Some(wanted), Some(&present)) if present > 0 && present != wanted => {
                queues.set_concurrency(queue, wanted)?;
            }
            _ => {}
        }
    }
    Ok(said.values().filter_map(|said| said.pause(now)?.until).min())
}

fn read(body: serde_json::Value) -> Result<Said> {
    serde_json::from_value(body).map_err(|error| {
        Error::new(ErrorKind::Corrupt, "what was said about a queue cannot be read")
            .caused_by(error)
    })
}
