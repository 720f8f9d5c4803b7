//! A server that stands in the test, answers by the contract of the API with recorded answers, and whose
//! clock always shows the same time.

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

/// What the clock of the server shows.
const NOW: &str = "Mon, 02 Mar 2026 07:00:00 GMT";

/// A question that came: method and address, token or cookie, body.
pub(crate) type Asked = (String, Option<String>, Value);

/// A recorded answer: method and address, status, body.
pub(crate) type Recorded = (&'static str, u16, Value);

/// A server that gives the recorded answers, in any order and as often as it is asked.
struct Double {
    answers: Vec<Recorded>,
    asked: Mutex<Vec<Asked>>,
}

async fn answer(State(double): State<Arc<Double>>, request: Request) -> Response {
    let asked = format!("{} {}", request.method(), request.uri());
    let token = request
        .headers()
        .get("authorization")
        .or_else(|| request.headers().get("cookie"))
        .map(|text| text.to_str().unwrap().to_owned());
    let body = to_bytes(request.into_body(), 1 << 20).await.unwrap();
    let body = serde_json::from_slice(&body).unwrap_or_default();
    let found = double.answers.iter().find(|(wanted, ..)| *wanted == asked);
    double.asked.lock().unwrap().push((asked, token, body));
    let mut headers = HeaderMap::new();
    headers.insert("date", NOW.parse().unwrap());
    headers.insert("set-cookie", "punctual_session=s1; Path=/; HttpOnly".parse().unwrap());
    headers.insert("content-type", "application/json".parse().unwrap());
    match found {
        Some((_, 204, _)) => (StatusCode::NO_CONTENT, headers).into_response(),
        Some((_, status, value)) => {
            (StatusCode::from_u16(*status).unwrap(), headers, value.to_string()).into_response()
        }
        None => (StatusCode::NOT_FOUND, headers, "nothing").into_response(),
    }
}

/// A server that runs, and what it is asked.
pub(crate) struct Served {
    pub(crate) url: String,
    double: Arc<Double>,
    _runtime: Runtime,
}

impl Served {
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.double.asked.lock().unwrap().clone()
    }
}

/// Starts a server with recorded answers.
pub(crate) fn serve(answers: Vec<Recorded>) -> Served {
    let double = Arc::new(Double { answers, asked: Mutex::default() });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().fallback(answer).with_state(double.clone());
    runtime.spawn(async move {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        axum::serve(listener, router).await.unwrap();
    });
    Served { url, double, _runtime: runtime }
}

/// Runs a command against recorded answers.
pub(crate) fn run(args: &[&str], answers: Vec<Recorded>) -> (Output, Vec<Asked>) {
    let served = serve(answers);
    let folder = tempfile::tempdir().unwrap();
    let output = punctual(folder.path(), args)
        .env("PUNCTUAL_SERVER", &served.url)
        .env("PUNCTUAL_TOKEN", "pct_1_secret")
        .output()
        .unwrap();
    (output, served.asked())
}

/// The program without anything that this machine says.
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
