//! Targets: jobs without code, against a server on this machine and real programs.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use punctual::clock::{Clock, add, within};
use punctual::inspect::{ExecutionFilter, Inspect, PageRequest};
use punctual::model::{Execution, HandlerOptions};
use punctual::{MemoryStorage, Publisher, Punctual, Retry, SystemClock};
use punctual_server::config::{Config, Networks};
use punctual_server::{
    CommandTarget, HttpTarget, PublishTarget, Target, TargetServices, Work, sign,
};
use serde_json::{Value, json};

/// Timeout that is long enough on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A process with the handlers of the targets.
struct TargetProcess {
    punctual: Punctual,
    storage: Arc<MemoryStorage>,
}

impl TargetProcess {
    async fn start(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::default();
        config.http.allow = Networks::read(vec!["127.0.0.1".to_owned()]).unwrap();
        config.command.enabled = true;
        change(&mut config);
        let clock = Arc::new(SystemClock);
        let storage = Arc::new(MemoryStorage::new(clock.clone()));
        let services = TargetServices::new(&config, clock).unwrap();
        let builder = Punctual::builder().storage(storage.clone());
        let punctual = services.register(builder).build().unwrap();
        punctual.start().await.unwrap();
        Self { punctual, storage }
    }

    fn publisher(&self) -> Publisher {
        self.punctual.publisher()
    }

    /// Runs a target once and returns the record of its first attempt.
    async fn run(
        &self,
        target: Target,
        payload: Value,
        handler_options: HandlerOptions,
    ) -> Execution {
        let work = Work { target, payload: Some(payload) };
        let topic = work.target.topic().unwrap();
        let mut events = self.punctual.events().listen();
        let published =
            self.publisher().publish(topic, &work).handler_options(handler_options).await.unwrap();
        let filter =
            || ExecutionFilter { message: Some(published.id), ..ExecutionFilter::default() };
        let ended = async {
            loop {
                let page = PageRequest::first(10);
                let found = Inspect::executions(&*self.storage, filter(), page).await.unwrap();
                if let Some(execution) = found.rows.into_iter().last() {
                    return Execution::clone(&execution);
                }
                // The event may arrive before the record is stored, so the check is repeated.
                let soon = add(SystemClock.now(), Duration::from_millis(50));
                let _ = within(&SystemClock, soon, events.recv()).await;
            }
        };
        within(&SystemClock, add(SystemClock.now(), TIMEOUT), ended).await.unwrap()
    }

    async fn once(&self, target: Target) -> Execution {
        let handler_options = HandlerOptions::new().retry(Retry::none());
        self.run(target, json!({"kind": "daily", "n": 7}), handler_options).await
    }
}

fn note(execution: &Execution) -> &str {
    execution.note.as_deref().unwrap_or_default()
}

type ReceivedRequests = Arc<Mutex<Vec<(String, HeaderMap, Bytes)>>>;

/// Starts a server that records its requests.
async fn target_server() -> (SocketAddr, ReceivedRequests) {
    let seen = ReceivedRequests::default();
    let router = Router::new()
        .route("/status/{status}", any(respond))
        .route("/redirect/{to}", get(redirect))
        .route("/elsewhere/{port}", any(elsewhere))
        .route("/large", get(|| async { "x".repeat(100_000) }))
        .with_state(seen.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, seen)
}

async fn respond(
    State(seen): State<ReceivedRequests>,
    Path(status): Path<u16>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    seen.lock().unwrap().push((status.to_string(), headers, body));
    let status = StatusCode::from_u16(status).unwrap();
    (status, [(header::RETRY_AFTER, "120")], "first line\nsecond line").into_response()
}

async fn redirect(
    State(seen): State<ReceivedRequests>,
    Path(to): Path<String>,
    headers: HeaderMap,
) -> Response {
    seen.lock().unwrap().push(("redirect".to_owned(), headers, Bytes::new()));
    let to = match to.as_str() {
        "metadata" => "http://169.254.169.254/latest/".to_owned(),
        "loop" => "/redirect/loop".to_owned(),
        status => format!("/status/{status}"),
    };
    (StatusCode::FOUND, [(header::LOCATION, to)]).into_response()
}

/// Redirects to another origin with the same method and body.
async fn elsewhere(Path(port): Path<u16>) -> Response {
    let to = format!("http://127.0.0.1:{port}/status/200");
    (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, to)]).into_response()
}

fn http(url: String) -> HttpTarget {
    HttpTarget { url, ..HttpTarget::default() }
}

#[tokio::test]
async fn a_call_carries_templates_headers_and_a_signature() {
    let (address, seen) = target_server().await;
    let bench = TargetProcess::start(|_| {}).await;
    let target: HttpTarget = serde_json::from_value(json!({
        "url": format!("http://{address}/status/201?n={{{{ payload.n }}}}"),
        "headers": {"X-Kind": "{{ payload.kind }}", "Authorization": "Bearer s3cret"},
        "body": {"n": "{{ payload.n }}", "attempt": "{{ attempt }}"},
        "signature": {"secret": "key"}
    }))
    .unwrap();
    let execution = bench.once(Target::Http(target)).await;
    assert_eq!(execution.ending.as_str(), "succeeded", "{execution:?}");
    assert!(note(&execution).contains("201 Created"), "{execution:?}");
    assert_eq!(execution.log.as_deref(), Some("first line\nsecond line"));
    let (_, headers, body) = seen.lock().unwrap().pop().unwrap();
    assert_eq!(headers["x-kind"], "daily");
    assert_eq!(headers["content-type"], "application/json");
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), json!({"n": 7, "attempt": 1}));
    let signature = headers["punctual-signature"].to_str().unwrap();
    let seconds = signature.strip_prefix("t=").unwrap().split(',').next().unwrap();
    let at = punctual::jiff::Timestamp::from_second(seconds.parse().unwrap()).unwrap();
    assert_eq!(signature, sign(b"key", at, &body).unwrap());
}

#[tokio::test]
async fn the_status_decides_about_a_retry() {
    let (address, _) = target_server().await;
    let bench = TargetProcess::start(|_| {}).await;
    let minute = Duration::from_secs(60);
    for (status, retry_on, state) in [
        (404, None, "dead"),
        (400, None, "dead"),
        (429, None, "pending"),
        (408, None, "pending"),
        (503, None, "pending"),
        (404, Some(json!([404])), "pending"),
        (503, Some(json!([404])), "dead"),
    ] {
        let url = format!("http://{address}/status/{status}");
        let retry_on = retry_on.map(|list: Value| serde_json::from_value(list).unwrap());
        let target = HttpTarget { retry_on, ..http(url) };
        let handler_options = HandlerOptions::new().retry(Retry::intervals([minute]));
        let execution = bench.run(Target::Http(target), Value::Null, handler_options).await;
        assert!(note(&execution).contains(&status.to_string()), "{execution:?}");
        let record = bench.storage.message(execution.message.unwrap()).await.unwrap().unwrap();
        assert_eq!(record.state.as_str(), state, "{status}: {record:?}");
        if state == "pending" {
            // The response requested two minutes.
            let wait = record.due_at.duration_since(execution.ended_at).as_secs();
            assert!((110..=121).contains(&wait), "{status}: {wait}");
        }
    }
    let expected = HttpTarget {
        expect: serde_json::from_value(json!(["4xx"])).unwrap(),
        ..http(format!("http://{address}/status/404"))
    };
    assert_eq!(bench.once(Target::Http(expected)).await.ending.as_str(), "succeeded");
}

#[tokio::test]
async fn redirects_and_responses_are_bounded_and_guarded() {
    let (address, seen) = target_server().await;
    let bench = TargetProcess::start(|_| {}).await;
    let redirected = |to: &str, most| {
        let url = format!("http://{address}/redirect/{to}");
        Target::Http(HttpTarget { redirects_max: Some(most), ..http(url) })
    };
    assert!(note(&bench.once(redirected("200", 1)).await).contains("200 OK"));
    let execution = bench.once(redirected("200", 0)).await;
    assert!(note(&execution).contains("302"), "{execution:?}");
    seen.lock().unwrap().clear();
    let execution = bench.once(redirected("loop", 3)).await;
    assert!(note(&execution).contains("302"), "{execution:?}");
    assert_eq!(seen.lock().unwrap().len(), 4);
    let execution = bench.once(redirected("metadata", 5)).await;
    assert!(note(&execution).contains("169.254.169.254, a private address"), "{execution:?}");
    let url = format!("http://{address}/large");
    let target = HttpTarget { response_bytes_max: Some(1_000), ..http(url) };
    let execution = bench.once(Target::Http(target)).await;
    assert!(note(&execution).contains("more than 1000 bytes"), "{execution:?}");
}

// Finding P18 of the newcomer's review: `localhost` was retried as a DNS error.
#[tokio::test]
async fn localhost_is_not_called_unless_it_is_allowed() {
    let (address, seen) = target_server().await;
    let bench = TargetProcess::start(|config| config.http.allow = Networks::default()).await;
    for host in ["127.0.0.1", "localhost", "0x7f.1", "[::ffff:127.0.0.1]"] {
        let url = format!("http://{host}:{}/status/200", address.port());
        // Retries are allowed, to show that a refused address is not retried.
        let handler_options =
            HandlerOptions::new().retry(Retry::intervals([Duration::from_secs(60)]));
        let execution = bench.run(Target::Http(http(url)), Value::Null, handler_options).await;
        assert!(note(&execution).contains("a private address"), "{host}: {execution:?}");
        let record = bench.storage.message(execution.message.unwrap()).await.unwrap().unwrap();
        assert_eq!(record.state.as_str(), "dead", "{host}: {record:?}");
        assert_eq!(record.attempt, 1, "{host}: {record:?}");
    }
    assert!(seen.lock().unwrap().is_empty());
}

// Finding F21 of the security review.
#[tokio::test]
async fn a_body_is_not_sent_to_a_redirect_to_another_origin() {
    let ((address, _), (other, seen)) = (target_server().await, target_server().await);
    let bench = TargetProcess::start(|_| {}).await;
    let url = format!("http://{address}/elsewhere/{}", other.port());
    let call = |body: Option<Value>| {
        Target::Http(HttpTarget { redirects_max: Some(3), body, ..http(url.clone()) })
    };
    let execution = bench.once(call(Some(json!({"secret_body": 1})))).await;
    assert!(note(&execution).contains("307 Temporary Redirect"), "{execution:?}");
    assert!(seen.lock().unwrap().is_empty());
    let execution = bench.once(call(None)).await;
    assert!(note(&execution).contains("200 OK"), "without a body it is followed: {execution:?}");
}

// Findings F1 and F22 of the security review: targets that were stored in another way have limits too.
#[tokio::test]
async fn a_target_above_its_limits_is_refused_when_it_runs() {
    let (address, seen) = target_server().await;
    let bench = TargetProcess::start(|_| {}).await;
    for (beyond, words) in [
        (json!({"response_bytes_max": 4_000_000_000_u32}), "at most"),
        (json!({"method": "TRACE"}), "use one of"),
        (json!({"redirects_max": 200}), "use 0 to 10"),
        (json!({"headers": {"Host": "evil.example"}}), "is set by the connection"),
        (json!({"headers": {"transfer-encoding": "chunked"}}), "is set by the connection"),
    ] {
        let mut target = json!({"url": format!("http://{address}/status/200")});
        target.as_object_mut().unwrap().extend(beyond.as_object().unwrap().clone());
        let target = Target::Http(serde_json::from_value(target).unwrap());
        assert_eq!(target.check().len(), 1, "{beyond}");
        let execution = bench.once(target).await;
        assert!(note(&execution).contains(words), "{beyond}: {execution:?}");
    }
    assert!(seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_secret_that_is_not_configured_is_not_sent() {
    let (address, seen) = target_server().await;
    let bench = TargetProcess::start(|_| {}).await;
    let target = HttpTarget {
        headers: serde_json::from_value(json!({"X": {"env": "PATH"}})).unwrap(),
        ..http(format!("http://{address}/status/200"))
    };
    let execution = bench.once(Target::Http(target)).await;
    assert!(note(&execution).contains("[secrets]"), "{execution:?}");
    assert!(seen.lock().unwrap().is_empty());
}

fn shell(line: &str) -> Target {
    let program = line.to_owned();
    Target::Command(CommandTarget { program, shell: true, ..CommandTarget::default() })
}

#[tokio::test]
async fn a_program_gets_the_allowed_environment_and_its_output_is_the_log() {
    let bench =
        TargetProcess::start(|config| config.command.env = Some(vec!["PATH".to_owned()])).await;
    let target = CommandTarget {
        program: "sh".to_owned(),
        args: vec![
            "-c".to_owned(),
            "env; echo \"$0\"; cat; echo no >&2".to_owned(),
            "{{ payload.n }}".to_owned(),
        ],
        env: serde_json::from_value(json!({"KIND": "{{ payload.kind }}"})).unwrap(),
        input: Some("from input\n".to_owned()),
        ..CommandTarget::default()
    };
    let execution = bench.once(Target::Command(target)).await;
    assert_eq!(execution.ending.as_str(), "succeeded", "{execution:?}");
    let log = execution.log.unwrap();
    for line in ["KIND=daily", "7", "from input", "no"] {
        assert!(log.lines().any(|logged| logged == line), "{line}: {log}");
    }
    assert!(!log.contains("CARGO"), "{log}");
}

#[tokio::test]
async fn an_unexpected_exit_code_is_a_failure() {
    let bench = TargetProcess::start(|_| {}).await;
    let execution = bench.once(shell("echo broken; exit 3")).await;
    assert_eq!(execution.ending.as_str(), "failed");
    assert!(note(&execution).contains("3: broken"), "{execution:?}");
    let missing = CommandTarget { program: "/none/such".to_owned(), ..CommandTarget::default() };
    let execution = bench.once(Target::Command(missing)).await;
    assert!(note(&execution).contains("cannot be started"), "{execution:?}");
}

#[tokio::test]
async fn programs_are_off_unless_enabled_and_only_those_listed() {
    let off = TargetProcess::start(|config| config.command.enabled = false).await;
    let execution = off.once(shell("true")).await;
    assert!(note(&execution).contains("command.enabled = true"), "{execution:?}");
    let listed =
        TargetProcess::start(|config| config.command.programs = vec!["/bin/true".to_owned()]).await;
    let execution = listed.once(shell("true")).await;
    assert!(note(&execution).contains("command.programs"), "{execution:?}");
}

#[tokio::test]
async fn a_timeout_kills_all_descendant_processes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let line = format!(
        "sh -c 'echo $$ > {}; trap \"\" TERM; while true; do sleep 0.1; done' & wait",
        file.display()
    );
    let bench = TargetProcess::start(|_| {}).await;
    let handler_options =
        HandlerOptions::new().retry(Retry::none()).timeout(Duration::from_secs(2));
    let execution = bench.run(shell(&line), Value::Null, handler_options).await;
    assert_eq!(execution.ending.as_str(), "timed_out", "{execution:?}");
    let pid: u32 = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
    let gone = async {
        while std::path::Path::new(&format!("/proc/{pid}/cmdline")).exists()
            && !std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default().is_empty()
        {
            SystemClock.sleep_until(add(SystemClock.now(), Duration::from_millis(20))).await;
        }
    };
    within(&SystemClock, add(SystemClock.now(), TIMEOUT), gone).await.unwrap();
}

#[tokio::test]
async fn a_message_is_published_with_its_template() {
    let bench = TargetProcess::start(|_| {}).await;
    let target = PublishTarget {
        topic: "orders".to_owned(),
        key: Some("{{ payload.kind }}".to_owned()),
        headers: BTreeMap::from([("n".to_owned(), "{{ payload.n }}".to_owned())]),
        body: Some(json!({"n": "{{ payload.n }}"})),
        ..PublishTarget::default()
    };
    let execution = bench.once(Target::Publish(target)).await;
    assert_eq!(execution.ending.as_str(), "succeeded", "{execution:?}");
    let id = note(&execution).split(' ').nth(1).unwrap().parse().unwrap();
    let record = bench.storage.message(id).await.unwrap().unwrap();
    assert_eq!(record.message.topic.as_str(), "orders");
    assert_eq!(record.message.key.as_ref().unwrap().as_str(), "daily");
    assert_eq!(record.message.headers.get("n"), Some("7"));
    assert_eq!(record.message.body.read::<Value>().unwrap(), json!({"n": 7}));
}
