//! Telemetry: traces and metrics at a collector on this machine. A request, the message it publishes and the calls of
//! the handler are one trace.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderMap, Request, StatusCode, Uri};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use punctual::SystemClock;
use punctual::clock::{Clock, add, within};
use punctual::model::Topic;
use punctual_server::config::Sources;
use punctual_server::{Assembly, HTTP_TOPIC, HttpTarget, RunningServer, Target, Work, router};
use serde_json::json;

use crate::site::Site;

/// Timeout that is long enough on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

/// Requests that the collector received: paths, headers and bodies.
type Received = Arc<Mutex<Vec<(String, HeaderMap, Bytes)>>>;

/// Starts a collector, which the handler calls as well.
async fn collector() -> (String, Received) {
    let received = Received::default();
    let take =
        async |State(received): State<Received>, uri: Uri, headers: HeaderMap, body: Bytes| {
            received.lock().unwrap().push((uri.path().to_owned(), headers, body));
        };
    let router = Router::new().fallback(take).with_state(received.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, received)
}

async fn start(otlp: &str) -> (RunningServer, Site) {
    start_with(otlp, "").await
}

async fn start_with(otlp: &str, more: &str) -> (RunningServer, Site) {
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[storage]\naddress = \"memory:\"\n\
         [http]\nallow = [\"127.0.0.1\"]\n{more}\
         [telemetry]\notlp = \"{otlp}\"\nservice_name = \"shop\"\nheaders = {{ Authorization = \"Bearer s3cret\" }}\n"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("punctual.toml");
    std::fs::write(&file, text).unwrap();
    let sources = Sources { file: Some(file), ..Sources::default() };
    let loaded = sources.load().unwrap();
    let running = Assembly { loaded, sources, demo: false }.start().await.unwrap();
    let site = Site { router: router(running.app().clone()), ..Site::with(|builder| builder) };
    (running, site)
}

/// Publishes a message within a trace.
async fn publish(site: &Site) {
    let request = Request::post("/api/v1/messages")
        .header(CONTENT_TYPE, "application/json")
        .header("traceparent", format!("00-{TRACE}-{CALLER}-01"));
    let body = json!({ "topic": "mail", "queue": "elsewhere" });
    let response = site.send(request.body(Body::from(body.to_string())).unwrap()).await;
    assert_eq!(response.status, StatusCode::CREATED, "{}", response.text);
}

/// Publishes a message that calls a URL, as only the server itself can; returns its id.
async fn call(running: &RunningServer, url: &str) -> String {
    let target = Target::Http(HttpTarget { url: url.to_owned(), ..HttpTarget::default() });
    let work = Work { target, payload: None };
    let publisher = running.app().punctual.publisher();
    publisher.publish(Topic::system(HTTP_TOPIC), &work).await.unwrap().id.to_string()
}

async fn succeeded(site: &Site, id: &str) {
    let done = async {
        loop {
            let shown = site.get(&format!("/api/v1/messages/{id}")).await;
            if shown.text.contains("\"succeeded\"") {
                break;
            }
            SystemClock.sleep_until(add(SystemClock.now(), Duration::from_millis(20))).await;
        }
    };
    within(&SystemClock, add(SystemClock.now(), TIMEOUT), done).await.expect("not handled in time");
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// Returns every span that was sent.
fn spans(received: &Received) -> Vec<Span> {
    let received = received.lock().unwrap();
    let bodies = received.iter().filter(|(path, ..)| path == "/v1/traces").map(|one| &one.2);
    let requests = bodies.map(|body| ExportTraceServiceRequest::decode(&body[..]).unwrap());
    let resources = requests.flat_map(|request| request.resource_spans);
    let scopes = resources.flat_map(|resource| resource.scope_spans);
    scopes.flat_map(|scope| scope.spans).collect()
}

// spec: C-5
#[tokio::test]
async fn a_request_its_message_and_the_calls_of_the_handler_are_one_trace() {
    let (address, received) = collector().await;
    let (running, site) = start(&address).await;
    publish(&site).await;
    let id = call(&running, &format!("{address}/hook")).await;
    succeeded(&site, &id).await;
    // The remaining spans are sent at the shutdown.
    assert!(running.shutdown().await.is_clean());
    let spans = spans(&received);
    let named = |name: &str| spans.iter().find(|span| span.name == name).expect(name);
    let (asked, sent) = (named("POST /api/v1/messages"), named("send mail"));
    assert_eq!((hex(&asked.trace_id), hex(&asked.parent_span_id)), (TRACE.into(), CALLER.into()));
    assert_eq!((&sent.trace_id, &sent.parent_span_id), (&asked.trace_id, &asked.span_id));
    let (sent, handled) = (named("send punctual.http"), named("process punctual.http"));
    assert_eq!((&handled.trace_id, &handled.parent_span_id), (&sent.trace_id, &sent.span_id));
    let received = received.lock().unwrap();
    let hook = received.iter().find(|(path, ..)| path == "/hook").unwrap();
    let called = hook.1["traceparent"].to_str().unwrap();
    assert_eq!(called, format!("00-{}-{}-01", hex(&handled.trace_id), hex(&handled.span_id)));
    let sent = received.iter().filter(|(path, ..)| path.starts_with("/v1/"));
    for (_, headers, _) in sent {
        assert_eq!(headers[AUTHORIZATION], "Bearer s3cret");
        assert_eq!(headers[CONTENT_TYPE], "application/x-protobuf");
    }
    let metrics = received.iter().filter(|(path, ..)| path == "/v1/metrics");
    let metrics = metrics.map(|one| ExportMetricsServiceRequest::decode(&one.2[..]).unwrap());
    let resources: Vec<_> = metrics.flat_map(|request| request.resource_metrics).collect();
    let service = format!("{:?}", resources[0].resource);
    assert!(service.contains("shop"), "{service}");
    let names: Vec<_> = resources
        .into_iter()
        .flat_map(|resource| resource.scope_metrics)
        .flat_map(|scope| scope.metrics)
        .map(|metric| metric.name)
        .collect();
    assert!(names.iter().any(|name| name == "punctual.attempts"), "{names:?}");
}

// spec: C-5
#[tokio::test]
async fn an_unreachable_collector_does_not_stop_the_server() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let unreachable = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let (address, received) = collector().await;
    let (running, site) = start(&unreachable).await;
    let id = call(&running, &format!("{address}/hook")).await;
    succeeded(&site, &id).await;
    let stopped = within(&SystemClock, add(SystemClock.now(), TIMEOUT), running.shutdown()).await;
    assert!(stopped.expect("it did not stop").is_clean());
    assert_eq!(received.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn the_collector_is_reached_through_the_proxy() {
    let (proxy, received) = collector().await;
    let more = format!("[outgoing]\nproxy = \"{proxy}\"\n");
    // A public address: only the proxy responds.
    let (running, site) = start_with("http://192.88.99.1:4318", &more).await;
    publish(&site).await;
    assert!(running.shutdown().await.is_clean());
    let received = received.lock().unwrap();
    let traces = received.iter().find(|(path, ..)| path == "/v1/traces").unwrap();
    assert_eq!(traces.1["host"], "192.88.99.1:4318");
}
