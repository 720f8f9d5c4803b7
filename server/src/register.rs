//! The register of processes: every node writes down every few seconds what it is and what it works on, and is
//! forgotten at the instant at which its heartbeat expires and other processes take its work over. Workers
//! elsewhere are written down when they ask.

mod machine;

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::Duration;

use jiff::Timestamp;
use punctual::client::HttpWorkerClaim;
use punctual::clock::{add, between};
use punctual::documents::{DOCUMENTS_MAX, Document, ExpectedVersion, KeyRange, NewDocument};
use punctual::model::ProcessId;
use punctual::{Error, Result};
use serde::{Deserialize, Serialize};

pub(crate) use machine::host;

use crate::app::App;
use crate::caller::Caller;

/// The kind of the documents; [`crate::surroundings`] reads them too.
const KIND: &str = "worker";
/// What kind of process a worker over HTTP is.
const HTTP: &str = "http";
/// The kind of the documents that tell a process to be quiet.
const QUIET: &str = "quiet";
/// How often a node writes itself down.
const BEAT: Duration = Duration::from_secs(5);
/// How often a worker elsewhere is written down at most, however often it asks.
const MET_AGAIN: Duration = Duration::from_secs(10);
/// How long a worker elsewhere is remembered after its last lease may have ended.
const MET_FOR: Duration = Duration::from_secs(90);
/// The most that is added for a long lease.
const MET_LEASE_MAX: Duration = Duration::from_secs(60 * 60);
/// How long a process stays quiet unless it is woken or ends.
const QUIET_FOR: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// The most workers elsewhere of which one node remembers when they were written down.
const MET_MAX: usize = 10_000;

/// What a process says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Registered {
    pub(crate) process: String,
    pub(crate) name: String,
    pub(crate) host: Option<String>,
    pub(crate) pid: Option<u32>,
    pub(crate) version: Option<String>,
    /// `server` or `http`.
    pub(crate) kind: String,
    pub(crate) roles: Vec<String>,
    pub(crate) queues: Vec<RegisteredQueue>,
    /// What it can handle; none when it takes whatever is in its queues.
    pub(crate) topics: Option<Vec<String>>,
    pub(crate) started_at: Timestamp,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) running: u64,
    pub(crate) stopping: bool,
    #[serde(default)]
    pub(crate) quiet: bool,
}

/// A queue that a process works on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RegisteredQueue {
    pub(crate) name: String,
    pub(crate) concurrency: usize,
    pub(crate) running: u64,
}

/// A worker elsewhere, as it introduces itself with a claim.
pub(crate) struct Elsewhere {
    worker: ProcessId,
    name: String,
    host: Option<String>,
    queue: RegisteredQueue,
    /// The topics it asked for; none for all.
    topics: Option<Vec<String>>,
    lease: Duration,
}

impl Elsewhere {
    pub(crate) fn new(name: &str, ask: &HttpWorkerClaim, caller: &Caller) -> Self {
        let queue =
            RegisteredQueue { name: ask.queue.to_string(), concurrency: ask.limit, running: 0 };
        let host = caller.from.map(|address| address.to_string());
        let topics = ask.topics.as_ref();
        let topics = topics.map(|topics| topics.iter().map(ToString::to_string).collect());
        let (worker, name, lease) = (ask.worker, name.trim().to_owned(), ask.lease);
        Self { worker, name, host, queue, topics, lease }
    }
}

/// Writes this node down until the process stops, and does what it was told.
pub(crate) async fn follow(app: App) {
    let mut heartbeats = app.punctual.heartbeats();
    loop {
        if let Err(error) = heartbeat(&app).await {
            tracing::warn!(%error, "this process cannot be written down");
        }
        if app.punctual.is_stopping() {
            return;
        }
        // Right after each heartbeat, so that the register and the rescuer know the same one.
        tokio::select! {
            () = app.rest_until(add(app.clock.now(), BEAT)) => {}
            () = heartbeats.next() => {}
        }
    }
}

/// Writes this node down once; also when it was told to be quiet.
pub(crate) async fn heartbeat(app: &App) -> Result<()> {
    let quiet = is_quiet(app, app.punctual.process_id()).await?;
    hush(app, quiet)?;
    let registered = Registered { quiet, ..ourselves(app) };
    let alive_until = app.punctual.heartbeats().alive_until();
    // Before the first heartbeat, or after an outage: the next one has this called again.
    if alive_until <= app.clock.now() {
        return Ok(());
    }
    write(app, &registered, alive_until).await
}

/// Claims nothing while it is quiet. Said again at every beat, because somebody may resume a queue.
fn hush(app: &App, quiet: bool) -> Result<()> {
    let queues = app.punctual.queues();
    let mut hushed = app.node().hushed.lock().unwrap_or_else(PoisonError::into_inner);
    if quiet {
        for status in queues.list() {
            if !status.paused {
                queues.pause(&status.queue)?;
                hushed.insert(status.queue);
            }
        }
        return Ok(());
    }
    for queue in std::mem::take(&mut *hushed) {
        queues.resume(&queue)?;
    }
    Ok(())
}

/// What this node says of itself now.
pub(crate) fn ourselves(app: &App) -> Registered {
    let (node, punctual) = (app.node(), &app.punctual);
    let served = punctual.queues().list().into_iter().filter(|status| status.concurrency > 0);
    let queues: Vec<RegisteredQueue> = served
        .map(|status| RegisteredQueue {
            name: status.queue.to_string(),
            concurrency: status.concurrency,
            running: status.running as u64,
        })
        .collect();
    Registered {
        process: punctual.process_id().to_string(),
        name: node.identity.name.clone(),
        host: machine::host(),
        pid: Some(std::process::id()),
        version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        kind: "server".to_owned(),
        roles: node.identity.roles.clone(),
        running: queues.iter().map(|queue| queue.running).sum(),
        queues,
        topics: Some(punctual.handled_topics().iter().map(ToString::to_string).collect()),
        started_at: node.started_at,
        memory_bytes: machine::memory_bytes(),
        stopping: punctual.is_stopping(),
        quiet: false,
    }
}

/// Writes a worker elsewhere down, when that was not done lately.
pub(crate) async fn met(app: &App, worker: Elsewhere) -> Result<()> {
    let now = app.clock.now();
    {
        let mut met = app.node().met.lock().unwrap_or_else(PoisonError::into_inner);
        met.retain(|_, written_at| between(*written_at, now) < MET_AGAIN);
        if met.contains_key(&worker.worker) || met.len() >= MET_MAX {
            return Ok(());
        }
        met.insert(worker.worker, now);
    }
    let key = worker.worker.to_string();
    let before = app.documents.get(KIND, &key, now).await?.and_then(|document| read(document).ok());
    let before = match elsewhere(app, worker.worker, before) {
        Ok(before) => before,
        Err(error) => {
            app.node().met.lock().unwrap_or_else(PoisonError::into_inner).remove(&worker.worker);
            return Err(error);
        }
    };
    let mut queues = before.as_ref().map(|before| before.0.queues.clone()).unwrap_or_default();
    queues.retain(|queue| queue.name != worker.queue.name);
    queues.push(worker.queue);
    let registered = Registered {
        process: key,
        name: worker.name,
        host: worker.host,
        pid: None,
        version: None,
        kind: HTTP.to_owned(),
        roles: vec!["worker".to_owned()],
        queues,
        topics: worker.topics,
        started_at: before.map_or(now, |before| before.0.started_at),
        memory_bytes: None,
        running: 0,
        stopping: false,
        quiet: false,
    };
    write(app, &registered, add(now, worker.lease.min(MET_LEASE_MAX) + MET_FOR)).await
}

/// Forgets a worker that said good-bye.
pub(crate) async fn gone(app: &App, worker: ProcessId) -> Result<()> {
    let known = app.documents.get(KIND, &worker.to_string(), app.clock.now()).await?;
    elsewhere(app, worker, known.and_then(|document| read(document).ok()))?;
    app.node().met.lock().unwrap_or_else(PoisonError::into_inner).remove(&worker);
    let _ = app.documents.remove(KIND, &worker.to_string(), ExpectedVersion::Any).await?;
    let _ = app.documents.remove(QUIET, &worker.to_string(), ExpectedVersion::Any).await?;
    Ok(())
}

/// Refuses the identity of a server to a worker over HTTP, which is not asked for again when it claimed lately.
pub(crate) async fn no_server(app: &App, worker: ProcessId) -> Result<()> {
    let now = app.clock.now();
    let met = app.node().met.lock().unwrap_or_else(PoisonError::into_inner).get(&worker).copied();
    if met.is_some_and(|written_at| between(written_at, now) < MET_AGAIN) {
        return Ok(());
    }
    let known = app.documents.get(KIND, &worker.to_string(), now).await?;
    elsewhere(app, worker, known.and_then(|document| read(document).ok())).map(drop)
}

/// What is known of a worker over HTTP. The identity of a server is refused, under which none may appear.
fn elsewhere(
    app: &App,
    worker: ProcessId,
    known: Option<(Registered, Timestamp)>,
) -> Result<Option<(Registered, Timestamp)>> {
    let is_server = known.as_ref().is_some_and(|(registered, _)| registered.kind != HTTP);
    if is_server || worker == app.punctual.process_id() {
        return Err(Error::conflict(format!(
            "{worker} is a server; a worker over HTTP needs an identity of its own"
        )));
    }
    Ok(known)
}

/// Every process that is known, by identity, with the instant it was last seen.
pub(crate) async fn all(app: &App) -> Result<BTreeMap<String, (Registered, Timestamp)>> {
    let now = app.clock.now();
    let range = KeyRange { limit: DOCUMENTS_MAX, ..KeyRange::default() };
    let documents = app.documents.list(KIND, range, now).await?;
    let mut all = BTreeMap::new();
    for document in documents {
        let (registered, seen_at) = read(document)?;
        all.insert(registered.process.clone(), (registered, seen_at));
    }
    let ours = ourselves(app);
    all.insert(ours.process.clone(), (ours, now));
    let range = KeyRange { limit: DOCUMENTS_MAX, ..KeyRange::default() };
    for document in app.documents.list(QUIET, range, now).await? {
        if let Some((registered, _)) = all.get_mut(&document.key) {
            registered.quiet = true;
        }
    }
    Ok(all)
}

/// Whether a process was told to claim nothing.
pub(crate) async fn is_quiet(app: &App, process: ProcessId) -> Result<bool> {
    let document = app.documents.get(QUIET, &process.to_string(), app.clock.now()).await?;
    Ok(document.is_some())
}

/// Tells a process to claim nothing, or to claim again. This node obeys at once, others at their next beat.
pub(crate) async fn set_quiet(app: &App, process: &str, quiet: bool) -> Result<()> {
    let now = app.clock.now();
    if quiet {
        let draft = NewDocument::new(QUIET, process, serde_json::Value::Null);
        app.documents.put_all(vec![draft.expires_at(add(now, QUIET_FOR))], now).await?;
    } else {
        let _ = app.documents.remove(QUIET, process, ExpectedVersion::Any).await?;
    }
    if process == app.punctual.process_id().to_string() { heartbeat(app).await } else { Ok(()) }
}

async fn write(app: &App, registered: &Registered, expires_at: Timestamp) -> Result<()> {
    let body = serde_json::to_value(registered)
        .map_err(|error| Error::internal("a process cannot be written down").caused_by(error))?;
    let draft = NewDocument::new(KIND, &registered.process, body).expires_at(expires_at);
    app.documents.put_all(vec![draft], app.clock.now()).await
}

fn read(document: Document) -> Result<(Registered, Timestamp)> {
    let registered = serde_json::from_value(document.body).map_err(|error| {
        let sentence = format!("the process {:?} in the register cannot be read", document.key);
        Error::new(punctual::ErrorKind::Corrupt, sentence).caused_by(error)
    })?;
    Ok((registered, document.updated_at))
}
