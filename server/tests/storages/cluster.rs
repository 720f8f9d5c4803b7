//! Cluster: several servers on one storage, without any configuration of each other.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use punctual::clock::{Clock, add};
use punctual::model::{MessageId, MessageRecord, MessageState};
use punctual::{Builder, Context, Job, Occurrence, SystemClock};
use punctual_backends::OpenedStorage;
use punctual_server::config::Sources;
use punctual_server::{App, Assembly, RunningServer, router, run_background};
use serde_json::Value;
use tokio::task::JoinHandle;
use tower::ServiceExt;

use crate::test_storage::{TestStorage, app};

/// Interval between two checks, until the timeout of the case.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Lease duration of a server that is killed.
const LEASE: Duration = Duration::from_secs(2);
/// Number of occurrences to wait for.
const OCCURRENCES: usize = 4;
/// Number of messages that the servers share.
const MESSAGES: usize = 60;

async fn moment() {
    SystemClock.sleep_until(add(SystemClock.now(), CHECK_INTERVAL)).await;
}

/// A server without a socket.
struct Node {
    app: App,
    opened: OpenedStorage,
    attending: JoinHandle<()>,
}

impl Node {
    async fn start(test_storage: &TestStorage, change: impl FnOnce(Builder) -> Builder) -> Self {
        let opened = test_storage.open().await;
        let app = app(&opened, Arc::new(SystemClock), |builder| {
            let builder = builder.options(|options| {
                options.lease_duration = LEASE;
                options.heartbeat_interval = LEASE / 4;
                options.rescue_interval = LEASE / 4;
            });
            change(builder)
        });
        app.punctual.start().await.unwrap();
        let attending = tokio::spawn(run_background(app.clone()));
        Self { app, opened, attending }
    }

    fn process(&self) -> String {
        self.app.punctual.process_id().to_string()
    }

    async fn stop(self) {
        self.app.punctual.shutdown().await;
        self.attending.abort();
        self.opened.close().await.unwrap();
    }
}

async fn get(app: &App, path: &str) -> Value {
    let request = Request::get(format!("/api/v1{path}")).body(Body::empty()).unwrap();
    let response = router(app.clone()).oneshot(request).await.unwrap();
    assert!(response.status().is_success(), "{path}: {}", response.status());
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&bytes).unwrap()
}

/// Repeats a request until the response is as expected, or the case times out.
async fn until(app: &App, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
    loop {
        let response = get(app, path).await;
        if holds(&response) {
            return response;
        }
        moment().await;
    }
}

fn items(list: &Value) -> &[Value] {
    list["items"].as_array().unwrap()
}

/// Runs of each server.
type Runs = Arc<Mutex<BTreeMap<&'static str, Vec<String>>>>;

/// Adds a job of every second and a slow handler, both of which record the server that ran them.
fn working(builder: Builder, name: &'static str, runs: &Runs) -> Builder {
    let (fired, handled) = (runs.clone(), runs.clone());
    builder
        .app("cluster")
        .queue("default", 2)
        .job(Job::every("tick", Duration::from_secs(1)), move |occurrence: Occurrence| {
            let nominal = occurrence.nominal.to_string();
            fired.lock().unwrap().entry("tick").or_default().push(nominal);
            async {}
        })
        .handler("mail", move |_: Context| {
            handled.lock().unwrap().entry(name).or_default().push(String::new());
            moment()
        })
}

// spec: C-7
pub(crate) async fn shared(test_storage: &TestStorage) {
    let runs = Runs::default();
    let one = Node::start(test_storage, |builder| working(builder, "one", &runs)).await;
    let other = Node::start(test_storage, |builder| working(builder, "other", &runs)).await;
    for _ in 0..MESSAGES {
        one.app.punctual.publisher().publish("mail", &()).await.unwrap();
    }
    for node in [&one, &other] {
        let workers = until(&node.app, "/workers", |list| items(list).len() == 2).await;
        let found: Vec<&str> =
            items(&workers).iter().map(|item| item["process"].as_str().unwrap()).collect();
        assert!(
            found.contains(&one.process().as_str()) && found.contains(&other.process().as_str())
        );
    }
    until(&one.app, "/messages/count?topic=mail&state=done", |response| {
        response["count"] == MESSAGES
    })
    .await;
    while runs.lock().unwrap().get("tick").map_or(0, Vec::len) < OCCURRENCES {
        moment().await;
    }
    one.stop().await;
    other.stop().await;
    let mut runs = runs.lock().unwrap().clone();
    let mut ticks = runs.remove("tick").unwrap();
    let fired = ticks.len();
    ticks.sort_unstable();
    ticks.dedup();
    assert_eq!(ticks.len(), fired, "an occurrence ran twice: {ticks:?}");
    let handled: usize = runs.values().map(Vec::len).sum();
    assert_eq!(handled, MESSAGES, "each message was handled once");
    assert_eq!(runs.len(), 2, "only one of them worked: {:?}", runs.keys());
}

/// Starts a server that is killed while it runs a message.
fn crashing_server(
    address: &TestStorage,
    began: std::sync::mpsc::Sender<String>,
) -> tokio::runtime::Runtime {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let reported = began.clone();
    let test_storage = address.share();
    runtime.spawn(async move {
        let node = Node::start(&test_storage, |builder| {
            builder.app("cluster").handler("mail", move |context: Context| {
                reported.send(context.message_id().to_string()).unwrap();
                std::future::pending::<()>()
            })
        })
        .await;
        began.send(node.process()).unwrap();
        std::future::pending::<()>().await;
    });
    runtime
}

pub(crate) async fn taken_over(test_storage: &TestStorage) {
    let (sender, receiver) = std::sync::mpsc::channel();
    let receiver = Arc::new(Mutex::new(receiver));
    let next_reported = async || {
        let receiver = receiver.clone();
        let wait = move || receiver.lock().unwrap().recv_timeout(Duration::from_secs(60)).unwrap();
        tokio::task::spawn_blocking(wait).await.unwrap()
    };
    let crashing_server = crashing_server(test_storage, sender);
    let dead = next_reported().await;
    let opened = test_storage.open().await;
    let publishing = app(&opened, Arc::new(SystemClock), |builder| builder.app("cluster"));
    let id = publishing.punctual.publisher().publish("mail", &()).await.unwrap().id;
    assert_eq!(next_reported().await, id.to_string());
    // All its tasks stop at once, as when the process is killed.
    crashing_server.shutdown_background();
    let heir = Node::start(test_storage, |builder| {
        builder.app("cluster").handler("mail", |_: Context| async {})
    })
    .await;
    let record = done(&heir.app, id).await;
    // A crash counts as a crash and not as an attempt.
    assert_eq!((record.crashes, record.attempt), (1, 1), "{record:?}");
    let tried = get(&heir.app, &format!("/executions?message={id}")).await;
    let ended: Vec<&str> =
        items(&tried).iter().map(|item| item["ending"].as_str().unwrap()).collect();
    assert_eq!(ended, ["succeeded", "lost"], "{tried}");
    assert_eq!(items(&tried)[0]["process"], Value::from(heir.process()), "{tried}");
    until(&heir.app, "/workers", |list| {
        items(list).iter().all(|item| item["process"] != dead.as_str())
    })
    .await;
    heir.stop().await;
    opened.close().await.unwrap();
}

async fn done(app: &App, id: MessageId) -> MessageRecord {
    loop {
        let record = app.inspect.message(id).await.unwrap().unwrap();
        if record.state == MessageState::Done {
            return record;
        }
        moment().await;
    }
}

async fn assembled(
    test_storage: &TestStorage,
    roles: &str,
    file: Option<std::path::PathBuf>,
) -> RunningServer {
    let mut sources = Sources { file, ..Sources::default() };
    for (flag, key, value) in [
        ("--listen", "server.listen", "127.0.0.1:0"),
        ("--storage", "storage.address", test_storage.address.as_str()),
        ("--roles", "server.roles", roles),
        ("--name", "server.name", roles),
    ] {
        sources.flags.push((flag, key, value.to_owned()));
    }
    let loaded = sources.load().unwrap();
    Assembly { loaded, sources, demo: false }.start().await.unwrap()
}

/// Each server has one role: one schedules, one runs, one serves the API.
pub(crate) async fn split(test_storage: &TestStorage) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("punctual.toml");
    let job =
        "[jobs.tick]\nevery = \"1s\"\npublish = { topic = \"tock\", queue = \"elsewhere\" }\n";
    std::fs::write(&file, job).unwrap();
    let api = assembled(test_storage, "api", None).await;
    let scheduler = assembled(test_storage, "scheduler", Some(file)).await;
    until(api.app(), "/messages/count?job=tick", |response| response["count"] != 0).await;
    let ran = get(api.app(), "/executions?job=tick&ending=succeeded").await;
    assert_eq!(items(&ran).len(), 0, "no server runs messages yet: {ran}");
    let worker = assembled(test_storage, "worker,relay", None).await;
    assert!(api.address().is_some() && scheduler.address().is_none() && worker.address().is_none());
    let ran =
        until(api.app(), "/executions?job=tick&ending=succeeded", |list| items(list).len() >= 2)
            .await;
    let process = worker.app().punctual.process_id().to_string();
    for one in items(&ran) {
        assert_eq!(one["process"], Value::from(process.as_str()), "{one}");
    }
    let workers = until(api.app(), "/workers", |list| items(list).len() == 3).await;
    let mut named: Vec<(&str, usize)> = items(&workers)
        .iter()
        .map(|item| (item["name"].as_str().unwrap(), item["roles"].as_array().unwrap().len()))
        .collect();
    named.sort_unstable();
    assert_eq!(named, [("api", 1), ("scheduler", 1), ("worker,relay", 2)]);
    for running in [scheduler, worker, api] {
        assert!(running.shutdown().await.is_clean());
    }
}
