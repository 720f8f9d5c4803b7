//! What surrounds a message: gathers the facts from which [`crate::why`] answers.

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
use crate::why::{Facts, Why, Worker};

/// The kind of the documents in which processes say what they work on.
const WORKERS: &str = "worker";
/// How long ago a process may have said so.
const SEEN_WITHIN: Duration = Duration::from_secs(90);
/// The most processes that are looked at.
const WORKERS_MAX: usize = 1_000;

/// Why a message is where it is.
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
    let said = queues::said_of(app, &message.queue).await?;
    let around = Around::of(app, record, name).await?;
    let batch_alive = match message.waits_for() {
        Some(batch) => {
            let counts = app.inspect.batch(batch).await?;
            counts.iter().filter(|(state, _)| state.is_alive()).map(|(_, count)| count).sum()
        }
        None => 0,
    };
    let workers = workers(app).await?;
    let facts = Facts {
        now,
        record,
        job: job.as_ref(),
        job_running: around.job,
        paused: said.pause(now),
        limit_running: around.limited,
        batch_alive,
        workers: &workers,
        queue_running: around.queue > 0,
        circuit: circuit(app, record),
        last,
    };
    Ok(facts.why())
}

/// How many others are running.
#[derive(Default)]
struct Around {
    job: u64,
    limited: u64,
    queue: u64,
}

impl Around {
    /// Looks at what is running, as far as one page shows it.
    async fn of(app: &App, record: &MessageRecord, job: Option<&JobName>) -> Result<Self> {
        if record.state != MessageState::Pending {
            return Ok(Self::default());
        }
        let filter =
            MessageFilter { states: vec![MessageState::Running], ..MessageFilter::default() };
        let running = app.inspect.messages(filter, PageRequest::first(PAGE_LIMIT_MAX)).await?.rows;
        let limit = record.message.limit().map(|limit| &limit.name);
        let mut around = Self::default();
        for other in running.iter().map(|other| &other.message) {
            let other_job = other.occurrence.as_ref().map(|occurrence| &occurrence.job);
            around.job += u64::from(job.is_some() && job == other_job);
            let other_limit = other.limit().map(|limit| &limit.name);
            around.limited += u64::from(limit.is_some() && limit == other_limit);
            around.queue += u64::from(other.queue == record.message.queue);
        }
        Ok(around)
    }
}

/// The circuit of the subscription whose line a message waits in.
fn circuit(app: &App, record: &MessageRecord) -> Option<Circuit> {
    let queue = &record.message.queue;
    let subscriptions = app.punctual.subscriptions().list();
    let mut ours = subscriptions
        .iter()
        .filter(|status| *queue == Queue::of_group(&status.name.topic, &status.name.group));
    ours.next().map(|status| status.circuit)
}

/// What a process says of itself; the rest of it is for others.
#[derive(Deserialize)]
struct Reported {
    #[serde(default)]
    queues: Vec<ReportedQueue>,
    #[serde(default)]
    topics: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct ReportedQueue {
    name: String,
}

/// This process, and those that said lately what they work on.
pub(crate) async fn workers(app: &App) -> Result<Vec<Worker>> {
    let now = app.clock.now();
    let range = KeyRange { limit: WORKERS_MAX, ..KeyRange::default() };
    let documents = app.documents.list(WORKERS, range, now).await?;
    let seen_after = subtract(now, SEEN_WITHIN);
    let others = documents.into_iter().filter(|document| document.updated_at >= seen_after);
    let others =
        others.filter_map(|document| serde_json::from_value::<Reported>(document.body).ok());
    let mut workers: Vec<Worker> = others
        .map(|reported| Worker {
            queues: reported.queues.into_iter().map(|queue| queue.name).collect(),
            topics: reported.topics,
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
