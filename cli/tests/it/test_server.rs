//! Test server: returns recorded responses of the API, with a fixed time in the `Date` header.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tokio::runtime::Runtime;

/// Time of the server's clock.
const NOW: &str = "Mon, 02 Mar 2026 07:00:00 GMT";

/// A received request: method and path, token or cookie, body.
pub(crate) type Received = (String, Option<String>, Value);

/// A recorded response: method and path of the request, status, body.
pub(crate) type Recorded = (&'static str, u16, Value);

/// State of the server: each response may be returned any number of times.
struct TestState {
    responses: Vec<Recorded>,
    received: Mutex<Vec<Received>>,
}

async fn respond(State(state): State<Arc<TestState>>, request: Request) -> Response {
    let route = format!("{} {}", request.method(), request.uri());
    let token = request
        .headers()
        .get("authorization")
        .or_else(|| request.headers().get("cookie"))
        .map(|text| text.to_str().unwrap().to_owned());
    let body = to_bytes(request.into_body(), 1 << 20).await.unwrap();
    let body = serde_json::from_slice(&body).unwrap_or_default();
    let recorded = state.responses.iter().find(|(expected, ..)| *expected == route);
    state.received.lock().unwrap().push((route, token, body));
    let mut headers = HeaderMap::new();
    headers.insert("date", NOW.parse().unwrap());
    headers.insert("set-cookie", "punctual_session=s1; Path=/; HttpOnly".parse().unwrap());
    headers.insert("content-type", "application/json".parse().unwrap());
    match recorded {
        Some((_, 204, _)) => (StatusCode::NO_CONTENT, headers).into_response(),
        Some((_, status, value)) => {
            (StatusCode::from_u16(*status).unwrap(), headers, value.to_string()).into_response()
        }
        None => (StatusCode::NOT_FOUND, headers, "nothing").into_response(),
    }
}

/// A running test server.
pub(crate) struct TestServer {
    pub(crate) url: String,
    state: Arc<TestState>,
    _runtime: Runtime,
}

impl TestServer {
    /// Returns the requests received so far.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.state.received.lock().unwrap().clone()
    }
}

/// Starts a server with recorded responses.
pub(crate) fn serve(responses: Vec<Recorded>) -> TestServer {
    let state = Arc::new(TestState { responses, received: Mutex::default() });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().fallback(respond).with_state(state.clone());
    runtime.spawn(async move {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        axum::serve(listener, router).await.unwrap();
    });
    TestServer { url, state, _runtime: runtime }
}

/// Runs a command against recorded responses; returns its output and the requests.
pub(crate) fn run(args: &[&str], responses: Vec<Recorded>) -> (Output, Vec<Received>) {
    let server = serve(responses);
    let folder = tempfile::tempdir().unwrap();
    let output = punctual(folder.path(), args)
        .env("PUNCTUAL_SERVER", &server.url)
        .env("PUNCTUAL_TOKEN", "pct_1_secret")
        .output()
        .unwrap();
    (output, server.received())
}

/// Returns the program without the settings of this machine.
pub(crate) fn punctual(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.args(args).current_dir(folder).stdin(Stdio::null());
    for name in ["PUNCTUAL_SERVER", "PUNCTUAL_STORAGE", "PUNCTUAL_TOKEN"] {
        command.env_remove(name);
    }
    command.env("XDG_CONFIG_HOME", folder).env("APPDATA", folder);
    command
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
