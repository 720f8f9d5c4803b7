//! Facts that a process does not know by itself, from the documents of the server: pauses of queues, and the other
//! processes of the registry.

use std::time::Duration;

use punctual::Result;
use punctual::analysis::{KnownProcess, OtherProcesses};
use punctual::backend::documents::KeyRange;
use punctual::clock::subtract;
use punctual::model::{Execution, MessageRecord, Queue, Topic};
use serde::Deserialize;

use crate::app::App;
use crate::queues;
use crate::why::Why;

/// The kind of the documents of the process registry.
const WORKERS: &str = "worker";
/// Largest age of an entry of the registry.
const ENTRY_AGE_MAX: Duration = Duration::from_secs(90);
/// Largest number of processes that are read.
const WORKERS_MAX: usize = 1_000;

/// Explains the state of a message.
pub(crate) async fn why(
    app: &App,
    record: &MessageRecord,
    last: Option<&Execution>,
) -> Result<Why> {
    let settings = queues::settings_of(app, &record.message.queue).await?;
    let queue_pause = settings.pause(app.clock.now()).cloned();
    let others = OtherProcesses { queue_pause, processes: registered(app).await? };
    Ok(app.admin().why_with(record, last, &others).await?.into())
}

/// The part of a registry entry that is read here.
#[derive(Deserialize)]
struct RegistryEntry {
    #[serde(default)]
    queues: Vec<RegistryQueue>,
    #[serde(default)]
    topics: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct RegistryQueue {
    name: String,
}

impl From<RegistryEntry> for KnownProcess {
    fn from(entry: RegistryEntry) -> Self {
        let topic = |name: String| Topic::stored(&name).ok();
        let topics = |names: Vec<String>| names.into_iter().filter_map(topic).collect();
        Self {
            queues: entry.queues.into_iter().map(|queue| Queue::from(queue.name)).collect(),
            topics: entry.topics.map(topics),
        }
    }
}

/// Returns this process and the recently recorded ones.
pub(crate) async fn workers(app: &App) -> Result<Vec<KnownProcess>> {
    let mut workers = registered(app).await?;
    workers.push(app.admin().this_process());
    Ok(workers)
}

/// Returns the recently recorded processes.
async fn registered(app: &App) -> Result<Vec<KnownProcess>> {
    let now = app.clock.now();
    let range = KeyRange { limit: WORKERS_MAX, ..KeyRange::default() };
    let documents = app.documents.list(WORKERS, range, now).await?;
    let updated_after = subtract(now, ENTRY_AGE_MAX);
    let recent = documents.into_iter().filter(|document| document.updated_at >= updated_after);
    let entries =
        recent.filter_map(|document| serde_json::from_value::<RegistryEntry>(document.body).ok());
    Ok(entries.map(KnownProcess::from).collect())
}
