//! Several servers on one storage. Nobody tells them of each other.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use punctual::clock::{Clock, add};
use punctual::model::{MessageId, MessageRecord, MessageState};
use punctual::{Builder, Context, Job, Occurrence, SystemClock};
use punctual_connect::Opened;
use punctual_server::config::Sources;
use punctual_server::{App, Assembly, Running, attend, router};
use serde_json::Value;
use tokio::task::JoinHandle;
use tower::ServiceExt;

use crate::place::{Place, app};

/// How often a case looks again, until the bound of the whole case.
const MOMENT: Duration = Duration::from_millis(50);
/// How long a lease lasts where a server dies.
const LEASE: Duration = Duration::from_secs(2);
/// How many occurrences are waited for.
const OCCURRENCES: usize = 4;
/// How many messages are shared.
const MESSAGES: usize = 60;

async fn moment() {
    SystemClock.sleep_until(add(SystemClock.now(), MOMENT)).await;
}

/// A server without a socket.
struct Node {
    app: App,
    opened: Opened,
    attending: JoinHandle<()>,
}

impl Node {
    async fn start(place: &Place, change: impl FnOnce(Builder) -> Builder) -> Self {
        let opened = place.open().await;
        let app = app(&opened, Arc::new(SystemClock), |builder| {
            let builder = builder.options(|options| {
                options.lease_duration = LEASE;
                options.heartbeat_interval = LEASE / 4;
                options.rescue_interval = LEASE / 4;
            });
            change(builder)
        });
        app.punctual.start().await.unwrap();
        let attending = tokio::spawn(attend(app.clone()));
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

/// Asks until the answer is as it should be; the bound is that of the whole case.
async fn until(app: &App, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    loop {
        let answer = get(app, path).await;
        if is_so(&answer) {
            return answer;
        }
        moment().await;
    }
}

fn items(list: &Value) -> &[Value] {
    list["items"].as_array().unwrap()
}

/// How often each server ran what.
type Runs = Arc<Mutex<BTreeMap<&'static str, Vec<String>>>>;

/// A job every second and a handler that takes a while, both of which say who ran them.
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
pub(crate) async fn shared(place: &Place) {
    let runs = Runs::default();
    let one = Node::start(place, |builder| working(builder, "one", &runs)).await;
    let other = Node::start(place, |builder| working(builder, "other", &runs)).await;
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
    until(&one.app, "/messages/count?topic=mail&state=done", |answer| answer["count"] == MESSAGES)
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

/// A server that dies with a message in its hands.
fn doomed(address: &Place, began: std::sync::mpsc::Sender<String>) -> tokio::runtime::Runtime {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let told = began.clone();
    let place = address.same();
    runtime.spawn(async move {
        let node = Node::start(&place, |builder| {
            builder.app("cluster").handler("mail", move |context: Context| {
                told.send(context.message_id().to_string()).unwrap();
                std::future::pending::<()>()
            })
        })
        .await;
        began.send(node.process()).unwrap();
        std::future::pending::<()>().await;
    });
    runtime
}

pub(crate) async fn taken_over(place: &Place) {
    let (sender, told) = std::sync::mpsc::channel();
    let told = Arc::new(Mutex::new(told));
    let hear = async || {
        let told = told.clone();
        let wait = move || told.lock().unwrap().recv_timeout(Duration::from_secs(60)).unwrap();
        tokio::task::spawn_blocking(wait).await.unwrap()
    };
    let doomed = doomed(place, sender);
    let dead = hear().await;
    let opened = place.open().await;
    let publishing = app(&opened, Arc::new(SystemClock), |builder| builder.app("cluster"));
    let id = publishing.punctual.publisher().publish("mail", &()).await.unwrap().id;
    assert_eq!(hear().await, id.to_string());
    // All its tasks end where they stand, as when the process is killed.
    doomed.shutdown_background();
    let heir =
        Node::start(place, |builder| builder.app("cluster").handler("mail", |_: Context| async {}))
            .await;
    let record = done(&heir.app, id).await;
    // A crash spends its own budget and gives the attempt back.
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

async fn assembled(place: &Place, roles: &str, file: Option<std::path::PathBuf>) -> Running {
    let mut sources = Sources { file, ..Sources::default() };
    for (flag, key, value) in [
        ("--listen", "server.listen", "127.0.0.1:0"),
        ("--storage", "storage.address", place.address.as_str()),
        ("--roles", "server.roles", roles),
        ("--name", "server.name", roles),
    ] {
        sources.flags.push((flag, key, value.to_owned()));
    }
    let loaded = sources.load().unwrap();
    Assembly { loaded, sources, demo: false }.start().await.unwrap()
}

/// Each does its part and nothing else: one fires, one runs, one answers.
pub(crate) async fn split(place: &Place) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("punctual.toml");
    let job =
        "[jobs.tick]\nevery = \"1s\"\npublish = { topic = \"tock\", queue = \"elsewhere\" }\n";
    std::fs::write(&file, job).unwrap();
    let api = assembled(place, "api", None).await;
    let scheduler = assembled(place, "scheduler", Some(file)).await;
    until(api.app(), "/messages/count?job=tick", |answer| answer["count"] != 0).await;
    let ran = get(api.app(), "/executions?job=tick&ending=succeeded").await;
    assert_eq!(items(&ran).len(), 0, "nobody works yet: {ran}");
    let worker = assembled(place, "worker,relay", None).await;
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
