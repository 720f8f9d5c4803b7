//! Facts about a message, its queue, job, limits and workers, from which [`crate::why`] explains its state.

use punctual::Result;
use punctual::clock::subtract;
use punctual::documents::KeyRange;
use punctual::inspect::{MessageFilter, PAGE_LIMIT_MAX, PageRequest};
use punctual::model::{Execution, JobName, MessageRecord, MessageState, Queue};
use punctual::policy::Circuit;
use serde::Deserialize;
use std::time::Duration;

use crate::app::App;
use crate::queues;
use crate::why::{Why, WhyFacts, Worker};

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
    let message = &record.message;
    let name = message.occurrence.as_ref().map(|occurrence| &occurrence.job);
    let job = match name {
        Some(name) => app.inspect.job(name).await?,
        None => None,
    };
    let now = app.clock.now();
    let settings = queues::settings_of(app, &message.queue).await?;
    let running_counts = RunningCounts::of(app, record, name).await?;
    let batch_alive = match message.waits_for() {
        Some(batch) => {
            let counts = app.inspect.batch(batch).await?;
            counts.iter().filter(|(state, _)| state.is_alive()).map(|(_, count)| count).sum()
        }
        None => 0,
    };
    let workers = workers(app).await?;
    let facts = WhyFacts {
        now,
        record,
        job: job.as_ref(),
        job_running: running_counts.job,
        paused: settings.pause(now),
        limit_running: running_counts.limited,
        batch_alive,
        workers: &workers,
        queue_running: running_counts.queue > 0,
        circuit: circuit(app, record),
        last,
    };
    Ok(facts.why())
}

/// Numbers of running messages related to a message.
#[derive(Default)]
struct RunningCounts {
    job: u64,
    limited: u64,
    queue: u64,
}

impl RunningCounts {
    /// Counts running messages on the first page.
    async fn of(app: &App, record: &MessageRecord, job: Option<&JobName>) -> Result<Self> {
        if record.state != MessageState::Pending {
            return Ok(Self::default());
        }
        let filter =
            MessageFilter { states: vec![MessageState::Running], ..MessageFilter::default() };
        let running = app.inspect.messages(filter, PageRequest::first(PAGE_LIMIT_MAX)).await?.rows;
        let limit = record.message.limit().map(|limit| &limit.name);
        let mut running_counts = Self::default();
        for other in running.iter().map(|other| &other.message) {
            let other_job = other.occurrence.as_ref().map(|occurrence| &occurrence.job);
            running_counts.job += u64::from(job.is_some() && job == other_job);
            let other_limit = other.limit().map(|limit| &limit.name);
            running_counts.limited += u64::from(limit.is_some() && limit == other_limit);
            running_counts.queue += u64::from(other.queue == record.message.queue);
        }
        Ok(running_counts)
    }
}

/// Returns the circuit breaker of the subscription that a message belongs to.
fn circuit(app: &App, record: &MessageRecord) -> Option<Circuit> {
    let queue = &record.message.queue;
    let subscriptions = app.punctual.subscriptions().list();
    let mut ours = subscriptions
        .iter()
        .filter(|status| *queue == Queue::of_group(&status.name.topic, &status.name.group));
    ours.next().map(|status| status.circuit)
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

/// Returns this process and the recently recorded ones.
pub(crate) async fn workers(app: &App) -> Result<Vec<Worker>> {
    let now = app.clock.now();
    let range = KeyRange { limit: WORKERS_MAX, ..KeyRange::default() };
    let documents = app.documents.list(WORKERS, range, now).await?;
    let updated_after = subtract(now, ENTRY_AGE_MAX);
    let others = documents.into_iter().filter(|document| document.updated_at >= updated_after);
    let others =
        others.filter_map(|document| serde_json::from_value::<RegistryEntry>(document.body).ok());
    let mut workers: Vec<Worker> = others
        .map(|entry| Worker {
            queues: entry.queues.into_iter().map(|queue| queue.name).collect(),
            topics: entry.topics,
        })
        .collect();
    let served = app.punctual.queues().list().into_iter().filter(|status| status.concurrency > 0);
    let topics = app.punctual.handled_topics().iter().map(ToString::to_string).collect();
    workers.push(Worker {
        queues: served.map(|status| status.queue.to_string()).collect(),
        topics: Some(topics),
    });
    Ok(workers)
}
