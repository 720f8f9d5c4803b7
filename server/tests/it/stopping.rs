//! Shutdown: responses of a stopping server, over a real socket.

use std::net::SocketAddr;
use std::time::Duration;

use punctual::SystemClock;
use punctual::clock::{Clock, add, between, within};
use punctual_server::config::Sources;
use punctual_server::{Assembly, RunningServer};
use serde_json::{Value, json};
use tokio::net::TcpStream;

/// Timeout that is long enough on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

async fn start(text: &str) -> RunningServer {
    let mut sources = Sources::default();
    sources.flags.push(("--listen", "server.listen", "127.0.0.1:0".to_owned()));
    sources.flags.push(("--storage", "storage.address", "memory:".to_owned()));
    let loaded = sources.load_text("punctual.toml", text).unwrap();
    Assembly { loaded, sources, demo: false }.start().await.unwrap()
}

/// Client with a new connection for every request.
struct Client {
    http: reqwest::Client,
    address: SocketAddr,
}

impl Client {
    fn of(running: &RunningServer) -> Self {
        let http = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).build();
        Self { http: http.unwrap(), address: running.address().unwrap() }
    }

    /// Sends a request and returns the status, `Retry-After` and the body.
    async fn send(&self, request: reqwest::RequestBuilder) -> (u16, Option<String>, Value) {
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let wait =
            response.headers().get("retry-after").map(|wait| wait.to_str().unwrap().to_owned());
        let text = response.text().await.unwrap();
        (status, wait, serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    async fn get(&self, path: &str) -> (u16, Option<String>, Value) {
        self.send(self.http.get(format!("http://{}{path}", self.address))).await
    }

    async fn post(&self, path: &str, body: &Value) -> (u16, Option<String>, Value) {
        let request = self.http.post(format!("http://{}{path}", self.address));
        let request = request.header("content-type", "application/json");
        self.send(request.body(body.to_string())).await
    }
}

/// Waits until a condition holds.
async fn until(holds: impl AsyncFn() -> bool) {
    let waiting = async {
        while !holds().await {
            SystemClock.sleep_until(add(SystemClock.now(), Duration::from_millis(10))).await;
        }
    };
    within(&SystemClock, add(SystemClock.now(), TIMEOUT), waiting).await.expect("it becomes so");
}

// Decision 3.44: connections were refused from the start of a shutdown, instead of a readiness response.
#[tokio::test]
async fn a_stopping_server_is_not_ready_until_its_messages_have_finished() {
    let folder = tempfile::tempdir().unwrap();
    let done = folder.path().join("done");
    let running = start(&format!(
        "[command]\nenabled = true\n[jobs.long]\nevery = \"24h\"\n\
         command = {{ program = \"until test -e {}; do sleep 0.05; done\", shell = true }}\n",
        done.display()
    ))
    .await;
    let (client, punctual) = (Client::of(&running), running.app().punctual.clone());
    let message = json!({ "topic": "t", "queue": "elsewhere", "json": 1 });
    assert_eq!(client.post("/api/v1/messages", &message).await.0, 201);
    let claim = json!({ "queue": "elsewhere", "worker": "w", "lease": "60s" });
    let (status, _, claimed) = client.post("/api/v1/work/claim", &claim).await;
    assert_eq!(status, 200, "{claimed}");
    let item = &claimed["items"][0];
    punctual.admin().trigger("long", false).await.unwrap();
    until(async || !punctual.is_idle()).await;
    let stopping = tokio::spawn(running.shutdown());
    until(async || punctual.is_stopping()).await;
    let (status, _, ready) = client.get("/health/ready").await;
    assert_eq!((status, &ready["ready"]), (503, &json!(false)));
    assert!(ready["reasons"].to_string().contains("the process is stopping"), "{ready}");
    let (status, _, health) = client.get("/health").await;
    assert_eq!((status, &health["lifecycle"]), (503, &json!("stopping")), "{health}");
    assert_eq!(client.get("/health/live").await.0, 200, "it is not to be killed");
    assert_eq!(
        client.post("/api/v1/messages", &message).await.0,
        201,
        "what came late is not lost"
    );
    let (status, wait, refused) = client.post("/api/v1/work/claim", &claim).await;
    assert_eq!((status, wait.is_some()), (503, true), "{refused}");
    let settled = json!({ "worker": "w", "message": item["message"]["id"],
        "token": item["lease"]["token"], "outcome": "done" });
    let (status, _, settled) = client.post("/api/v1/work/settle", &settled).await;
    assert_eq!((status, &settled["state"]), (200, &json!("applied")));
    assert!(!stopping.is_finished(), "the job still runs");
    std::fs::write(&done, "").unwrap();
    let stopped = within(&SystemClock, add(SystemClock.now(), TIMEOUT), stopping).await;
    assert!(stopped.expect("it stops").unwrap().is_clean());
    assert!(TcpStream::connect(client.address).await.is_err(), "the socket is closed");
}

#[tokio::test]
async fn a_server_without_work_stops_immediately_also_with_idle_connections() {
    let running = start("").await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("http://{}/health/live", running.address().unwrap());
    assert_eq!(client.get(url).send().await.unwrap().status().as_u16(), 200);
    let began = SystemClock.now();
    assert!(running.shutdown().await.is_clean());
    // Less than every timeout of requests and messages.
    assert!(between(began, SystemClock.now()) < Duration::from_secs(5));
}
