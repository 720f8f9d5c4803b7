//! Assembly: a whole server built from a configuration, on a real socket.

use std::path::PathBuf;
use std::time::Duration;

use punctual::SystemClock;
use punctual::clock::{Clock, add, within};
use punctual_server::config::Sources;
use punctual_server::{Assembly, RunningServer};

/// Timeout that is long enough on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

async fn start(
    file: Option<PathBuf>,
    flags: &[(&'static str, &'static str, &str)],
) -> RunningServer {
    let mut sources = Sources { file, ..Sources::default() };
    sources.flags.push(("--listen", "server.listen", "127.0.0.1:0".to_owned()));
    sources.flags.push(("--storage", "storage.address", "memory:".to_owned()));
    sources.flags.extend(flags.iter().map(|(flag, key, value)| (*flag, *key, (*value).to_owned())));
    let loaded = sources.load().unwrap();
    Assembly { loaded, sources, demo: false }.start().await.unwrap()
}

async fn names(running: &RunningServer) -> Vec<String> {
    let status = running.app().punctual.admin().status().await;
    status
        .jobs
        .into_iter()
        .filter(|job| job.retired.is_none())
        .map(|job| job.name.to_string())
        .collect()
}

#[tokio::test]
async fn a_changed_file_changes_the_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("punctual.toml");
    let job = |name: &str| format!("[jobs.{name}]\nevery = \"1h\"\ntopic = \"t\"\n");
    std::fs::write(&file, job("one")).unwrap();
    let running = start(Some(file.clone()), &[]).await;
    assert_eq!(names(&running).await, ["one"]);
    std::fs::write(&file, job("three") + &job("two")).unwrap();
    let changed = async {
        while names(&running).await != ["three", "two"] {
            SystemClock.sleep_until(add(SystemClock.now(), Duration::from_millis(50))).await;
        }
    };
    within(&SystemClock, add(SystemClock.now(), TIMEOUT), changed).await.unwrap();
    assert!(running.shutdown().await.is_clean());
}

// The messages of a job added by a reload were not claimed until a restart of the server.
#[tokio::test]
async fn a_reload_starts_workers_for_the_queues_of_new_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("punctual.toml");
    let job =
        |name: &str| format!("[jobs.{name}]\nevery = \"1h\"\ntopic = \"t\"\nqueue = \"{name}\"\n");
    std::fs::write(&file, job("one")).unwrap();
    let running = start(Some(file.clone()), &[]).await;
    let served = async || {
        let all = running.app().punctual.queues().list().into_iter();
        let names = all.filter(|one| one.concurrency > 0).map(|one| one.queue.to_string());
        names.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(served().await, "default one punctual.webhook");
    std::fs::write(&file, job("one") + &job("two")).unwrap();
    changed(served, |state| state == "default one punctual.webhook two").await;
    assert!(running.shutdown().await.is_clean());
}

// The jobs in the file of a server without the role `scheduler` were ignored without a warning.
#[tokio::test]
async fn a_server_without_the_scheduler_role_declares_the_jobs_of_its_file_and_retires_none() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("punctual.toml");
    let job = |name: &str| format!("[jobs.{name}]\nevery = \"1h\"\ntopic = \"t\"\n");
    std::fs::write(&file, job("one")).unwrap();
    let running = start(Some(file.clone()), &[("--roles", "server.roles", "worker,api")]).await;
    assert_eq!(names(&running).await, ["one"]);
    std::fs::write(&file, job("three") + &job("two")).unwrap();
    let changed = async {
        while names(&running).await != ["one", "three", "two"] {
            SystemClock.sleep_until(add(SystemClock.now(), Duration::from_millis(50))).await;
        }
    };
    within(&SystemClock, add(SystemClock.now(), TIMEOUT), changed).await.unwrap();
    assert!(running.shutdown().await.is_clean());
}

// Finding P13 of the newcomer's review: a refused configuration was only in the log.
#[tokio::test]
async fn an_invalid_file_keeps_the_jobs_and_is_reported_by_health_until_it_is_fixed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("punctual.toml");
    let good = "[jobs.one]\nevery = \"1h\"\ntopic = \"t\"\n";
    std::fs::write(&file, good).unwrap();
    let running = start(Some(file.clone()), &[]).await;
    let mut events = running.app().punctual.events().listen();
    let health = async || health(&running).await;
    changed(async || health().await, |state| state == "healthy: []").await;
    std::fs::write(&file, "[jobs.one]\nevery = \"never\"\n").unwrap();
    let state = changed(async || health().await, |state| state.starts_with("degraded")).await;
    assert!(state.contains("configuration_refused") && state.contains("jobs.one"), "{state}");
    assert_eq!(names(&running).await, ["one"], "the jobs stay as they were");
    let reported = std::iter::from_fn(|| events.try_recv().ok());
    assert_eq!(reported.filter(|event| event.name() == "configuration.refused").count(), 1);
    std::fs::write(&file, good).unwrap();
    changed(async || health().await, |state| state == "healthy: []").await;
    running.shutdown().await;
}

// Finding P9 of the newcomer's review: no key configured how long a stopping server waits.
// spec: U-28
#[cfg(unix)]
#[tokio::test]
async fn a_stopping_server_waits_for_running_messages_up_to_its_timeout() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("punctual.toml");
    let job = "[command]\nenabled = true\n[jobs.long]\nevery = \"24h\"\n\
               command = { program = \"exec sleep 60\", shell = true }\n";
    std::fs::write(&file, job).unwrap();
    let running = start(Some(file), &[("--drain-timeout", "server.drain_timeout", "1ms")]).await;
    let punctual = running.app().punctual.clone();
    punctual.admin().trigger("long", false).await.unwrap();
    let begun = async {
        while punctual.is_idle() {
            SystemClock.sleep_until(add(SystemClock.now(), Duration::from_millis(10))).await;
        }
    };
    within(&SystemClock, add(SystemClock.now(), TIMEOUT), begun).await.unwrap();
    // Less than the 30 seconds of the default, and more than it takes.
    let until = add(SystemClock.now(), Duration::from_secs(25));
    let stopped = within(&SystemClock, until, running.shutdown()).await;
    assert_eq!(stopped.expect("it waits no longer than that").interrupted, 1);
}

/// Returns the condition of a server and its alerts, as the API reports them.
async fn health(running: &RunningServer) -> String {
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;
    let request = axum::http::Request::get("/api/v1/health").body(axum::body::Body::empty());
    let router = punctual_server::router(running.app().clone());
    let response = router.oneshot(request.unwrap()).await.unwrap();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let health: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    format!("{}: {}", health["condition"].as_str().unwrap(), health["alerts"])
}

/// Repeats a request until the response is as expected.
async fn changed(ask: impl AsyncFn() -> String, holds: impl Fn(&str) -> bool) -> String {
    let until = add(SystemClock.now(), TIMEOUT);
    loop {
        let state = ask().await;
        if holds(&state) {
            return state;
        }
        assert!(SystemClock.now() < until, "it never was as expected; the last state: {state}");
        SystemClock.sleep_until(add(SystemClock.now(), Duration::from_millis(50))).await;
    }
}

#[tokio::test]
async fn a_process_without_the_role_api_does_not_listen() {
    let running = start(None, &[("--roles", "server.roles", "worker,relay")]).await;
    assert_eq!(running.address(), None);
    running.shutdown().await;
    let running = start(None, &[]).await;
    let address = running.address().unwrap();
    assert_ne!(address.port(), 0);
    tokio::net::TcpStream::connect(address).await.unwrap();
    running.shutdown().await;
}
