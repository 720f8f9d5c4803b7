//! Process registry: every node records itself with each heartbeat and expires with it, at the instant at which other
//! processes take its work over. HTTP workers are recorded when they claim.

mod machine;

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::Duration;

use jiff::Timestamp;
use punctual::backend::documents::{
    DOCUMENTS_MAX, Document, ExpectedVersion, KeyRange, NewDocument,
};
use punctual::client::HttpWorkerClaim;
use punctual::clock::{add, between};
use punctual::model::ProcessId;
use punctual::{Error, Result};
use serde::{Deserialize, Serialize};

pub(crate) use machine::host;

use crate::app::App;
use crate::caller::Caller;

/// The kind of the documents; [`crate::why_facts`] reads them too.
const KIND: &str = "worker";
/// The `kind` of HTTP workers.
const HTTP: &str = "http";
/// The kind of the documents that make a process quiet.
const QUIET: &str = "quiet";
/// Interval in which a node records itself, besides its heartbeats.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);
/// Shortest interval between records of an HTTP worker, however often it claims.
const RECORD_INTERVAL: Duration = Duration::from_secs(10);
/// How long an HTTP worker is kept after the end of its last lease.
const HTTP_WORKER_TTL: Duration = Duration::from_secs(90);
/// Largest part of a lease that is added to the expiry of an HTTP worker.
const LEASE_TTL_MAX: Duration = Duration::from_secs(60 * 60);
/// How long a process stays quiet at most.
const QUIET_TTL: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Largest number of HTTP workers whose last record one node remembers.
const RECORDED_MAX: usize = 10_000;

/// A process in the registry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ProcessEntry {
    pub(crate) process: String,
    pub(crate) name: String,
    pub(crate) host: Option<String>,
    pub(crate) pid: Option<u32>,
    pub(crate) version: Option<String>,
    /// `server` or `http`.
    pub(crate) kind: String,
    pub(crate) roles: Vec<String>,
    pub(crate) queues: Vec<ProcessQueue>,
    /// Topics that it handles; none for all topics of its queues.
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
pub(crate) struct ProcessQueue {
    pub(crate) name: String,
    pub(crate) concurrency: usize,
    pub(crate) running: u64,
}

/// An HTTP worker as described by its claim.
pub(crate) struct HttpWorkerEntry {
    worker: ProcessId,
    name: String,
    host: Option<String>,
    queue: ProcessQueue,
    /// The topics of its claim; none for all.
    topics: Option<Vec<String>>,
    lease: Duration,
}

impl HttpWorkerEntry {
    pub(crate) fn new(name: &str, ask: &HttpWorkerClaim, caller: &Caller) -> Self {
        let queue =
            ProcessQueue { name: ask.queue.to_string(), concurrency: ask.limit, running: 0 };
        let host = caller.from.map(|address| address.to_string());
        let topics = ask.topics.as_ref();
        let topics = topics.map(|topics| topics.iter().map(ToString::to_string).collect());
        let (worker, name, lease) = (ask.worker, name.trim().to_owned(), ask.lease);
        Self { worker, name, host, queue, topics, lease }
    }
}

/// Records this node until the process stops, and applies whether it is quiet.
pub(crate) async fn follow(app: App) {
    let mut heartbeats = app.punctual.heartbeats();
    loop {
        if let Err(error) = heartbeat(&app).await {
            tracing::warn!(%error, "this process could not be recorded");
        }
        if app.punctual.is_stopping() {
            return;
        }
        // Right after each heartbeat, so that the registry and the rescue of leases use the same one.
        tokio::select! {
            () = app.rest_until(add(app.clock.now(), HEARTBEAT_INTERVAL)) => {}
            () = heartbeats.next() => {}
        }
    }
}

/// Records this node once, and applies whether it is quiet.
pub(crate) async fn heartbeat(app: &App) -> Result<()> {
    let quiet = is_quiet(app, app.punctual.process_id()).await?;
    apply_quiet(app, quiet)?;
    let registered = ProcessEntry { quiet, ..this_process(app) };
    let alive_until = app.punctual.heartbeats().alive_until();
    // Before the first heartbeat, or after an outage; the next heartbeat calls this again.
    if alive_until <= app.clock.now() {
        return Ok(());
    }
    write(app, &registered, alive_until).await
}

/// Pauses all queues while the process is quiet. Applied at every heartbeat, because an operator may resume a queue.
fn apply_quiet(app: &App, quiet: bool) -> Result<()> {
    let queues = app.punctual.queues();
    let mut paused_by_quiet =
        app.node().paused_by_quiet.lock().unwrap_or_else(PoisonError::into_inner);
    if quiet {
        for status in queues.list() {
            if !status.paused {
                queues.pause(&status.queue)?;
                paused_by_quiet.insert(status.queue);
            }
        }
        return Ok(());
    }
    for queue in std::mem::take(&mut *paused_by_quiet) {
        queues.resume(&queue)?;
    }
    Ok(())
}

/// Returns the current entry of this node.
pub(crate) fn this_process(app: &App) -> ProcessEntry {
    let (node, punctual) = (app.node(), &app.punctual);
    let served = punctual.queues().list().into_iter().filter(|status| status.concurrency > 0);
    let queues: Vec<ProcessQueue> = served
        .map(|status| ProcessQueue {
            name: status.queue.to_string(),
            concurrency: status.concurrency,
            running: status.running as u64,
        })
        .collect();
    ProcessEntry {
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

/// Records an HTTP worker, at most once per `RECORD_INTERVAL`.
pub(crate) async fn record_http_worker(app: &App, worker: HttpWorkerEntry) -> Result<()> {
    let now = app.clock.now();
    {
        let mut recorded =
            app.node().recorded_workers.lock().unwrap_or_else(PoisonError::into_inner);
        recorded.retain(|_, written_at| between(*written_at, now) < RECORD_INTERVAL);
        if recorded.contains_key(&worker.worker) || recorded.len() >= RECORDED_MAX {
            return Ok(());
        }
        recorded.insert(worker.worker, now);
    }
    let key = worker.worker.to_string();
    let before = app.documents.get(KIND, &key, now).await?.and_then(|document| read(document).ok());
    let before = match checked_worker(app, worker.worker, before) {
        Ok(before) => before,
        Err(error) => {
            app.node()
                .recorded_workers
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(&worker.worker);
            return Err(error);
        }
    };
    let mut queues = before.as_ref().map(|before| before.0.queues.clone()).unwrap_or_default();
    queues.retain(|queue| queue.name != worker.queue.name);
    queues.push(worker.queue);
    let registered = ProcessEntry {
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
    write(app, &registered, add(now, worker.lease.min(LEASE_TTL_MAX) + HTTP_WORKER_TTL)).await
}

/// Removes an HTTP worker from the registry.
pub(crate) async fn deregister(app: &App, worker: ProcessId) -> Result<()> {
    let known = app.documents.get(KIND, &worker.to_string(), app.clock.now()).await?;
    checked_worker(app, worker, known.and_then(|document| read(document).ok()))?;
    app.node().recorded_workers.lock().unwrap_or_else(PoisonError::into_inner).remove(&worker);
    let _ = app.documents.remove(KIND, &worker.to_string(), ExpectedVersion::Any).await?;
    let _ = app.documents.remove(QUIET, &worker.to_string(), ExpectedVersion::Any).await?;
    Ok(())
}

/// Fails when the id of an HTTP worker is that of a server. Skipped for a worker that was recorded recently.
pub(crate) async fn refuse_server_id(app: &App, worker: ProcessId) -> Result<()> {
    let now = app.clock.now();
    let recorded = app
        .node()
        .recorded_workers
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .get(&worker)
        .copied();
    if recorded.is_some_and(|written_at| between(written_at, now) < RECORD_INTERVAL) {
        return Ok(());
    }
    let known = app.documents.get(KIND, &worker.to_string(), now).await?;
    checked_worker(app, worker, known.and_then(|document| read(document).ok())).map(drop)
}

/// Returns the entry of an HTTP worker; fails when the id is that of a server.
fn checked_worker(
    app: &App,
    worker: ProcessId,
    known: Option<(ProcessEntry, Timestamp)>,
) -> Result<Option<(ProcessEntry, Timestamp)>> {
    let is_server = known.as_ref().is_some_and(|(registered, _)| registered.kind != HTTP);
    if is_server || worker == app.punctual.process_id() {
        return Err(Error::conflict(format!(
            "{worker} is a server; an HTTP worker needs an id of its own"
        )));
    }
    Ok(known)
}

/// Returns every known process by id, with the instant of its last record.
pub(crate) async fn all(app: &App) -> Result<BTreeMap<String, (ProcessEntry, Timestamp)>> {
    let now = app.clock.now();
    let range = KeyRange { limit: DOCUMENTS_MAX, ..KeyRange::default() };
    let documents = app.documents.list(KIND, range, now).await?;
    let mut all = BTreeMap::new();
    for document in documents {
        let (registered, seen_at) = read(document)?;
        all.insert(registered.process.clone(), (registered, seen_at));
    }
    let own = this_process(app);
    all.insert(own.process.clone(), (own, now));
    let range = KeyRange { limit: DOCUMENTS_MAX, ..KeyRange::default() };
    for document in app.documents.list(QUIET, range, now).await? {
        if let Some((registered, _)) = all.get_mut(&document.key) {
            registered.quiet = true;
        }
    }
    Ok(all)
}

/// Returns whether a process is quiet, so that it claims nothing.
pub(crate) async fn is_quiet(app: &App, process: ProcessId) -> Result<bool> {
    let document = app.documents.get(QUIET, &process.to_string(), app.clock.now()).await?;
    Ok(document.is_some())
}

/// Makes a process quiet, or lets it claim again. This node applies it immediately, others at their next heartbeat.
pub(crate) async fn set_quiet(app: &App, process: &str, quiet: bool) -> Result<()> {
    let now = app.clock.now();
    if quiet {
        let draft = NewDocument::new(QUIET, process, serde_json::Value::Null);
        app.documents.put_all(vec![draft.expires_at(add(now, QUIET_TTL))], now).await?;
    } else {
        let _ = app.documents.remove(QUIET, process, ExpectedVersion::Any).await?;
    }
    if process == app.punctual.process_id().to_string() { heartbeat(app).await } else { Ok(()) }
}

async fn write(app: &App, registered: &ProcessEntry, expires_at: Timestamp) -> Result<()> {
    let body = serde_json::to_value(registered)
        .map_err(|error| Error::internal("a process cannot be recorded").caused_by(error))?;
    let draft = NewDocument::new(KIND, &registered.process, body).expires_at(expires_at);
    app.documents.put_all(vec![draft], app.clock.now()).await
}

fn read(document: Document) -> Result<(ProcessEntry, Timestamp)> {
    let registered = serde_json::from_value(document.body).map_err(|error| {
        let sentence = format!("the process {:?} in the registry cannot be read", document.key);
        Error::new(punctual::ErrorKind::Corrupt, sentence).caused_by(error)
    })?;
    Ok((registered, document.updated_at))
}
