//! Shutdown of server and process: open requests finish, and event streams end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, State};
use axum::routing::get;
use punctual::{ManualClock, Publisher, Punctual};
use punctual_axum::{Client, ProblemResponse, Serve, router, serve_until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};

/// A gate that signals that a task has reached it, and blocks the task until the test opens it.
#[derive(Clone)]
struct Gate {
    reached: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl Gate {
    fn shut() -> Self {
        Self { reached: Arc::new(Semaphore::new(0)), open: Arc::new(Semaphore::new(0)) }
    }

    async fn pass(&self) {
        self.reached.add_permits(1);
        self.open.acquire().await.unwrap().forget();
    }
}

#[derive(Clone)]
struct Shop {
    punctual: Arc<Punctual>,
    gate: Gate,
}

impl axum::extract::FromRef<Shop> for Arc<Punctual> {
    fn from_ref(shop: &Shop) -> Self {
        shop.punctual.clone()
    }
}

/// A request that is open when the signal comes, and publishes after it.
async fn slow(
    State(shop): State<Shop>,
    Client(publisher): Client<Publisher>,
) -> Result<(), ProblemResponse> {
    shop.gate.pass().await;
    publisher.publish("late", &1).await?;
    Ok(())
}

async fn ask(address: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: shop\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn requests_and_handlers_finish_and_event_streams_end() {
    let (working, requested) = (Gate::shut(), Gate::shut());
    let gate = working.clone();
    let punctual = Punctual::builder()
        .handler("work", move |_: u32| {
            let gate = gate.clone();
            async move { gate.pass().await }
        })
        .build()
        .unwrap();
    let punctual = Arc::new(punctual);
    let shop = Shop { punctual: punctual.clone(), gate: requested.clone() };
    let app = Router::new()
        .route("/slow", get(slow))
        .with_state(shop)
        .nest("/punctual", router(&punctual).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (signal, signalled) = oneshot::channel::<()>();
    let served = punctual.clone();
    let server = tokio::spawn(async move {
        let signal = async { signalled.await.unwrap_or(()) };
        serve_until(listener, app, &served, signal).await
    });
    let mut listening = ask(address, "/punctual/events").await;
    let mut beginning = [0; 15];
    listening.read_exact(&mut beginning).await.unwrap();
    assert_eq!(&beginning, b"HTTP/1.1 200 OK");
    punctual.publisher().publish("work", &1).await.unwrap();
    working.reached.acquire().await.unwrap().forget();
    let mut waiting = ask(address, "/slow").await;
    requested.reached.acquire().await.unwrap().forget();

    signal.send(()).unwrap();
    while !punctual.is_stopping() {
        tokio::task::yield_now().await;
    }
    assert!(!server.is_finished());
    working.open.add_permits(1);
    requested.open.add_permits(1);
    let stopped = server.await.unwrap().unwrap();
    assert!(stopped.is_clean(), "{stopped}");
    let mut response = String::new();
    waiting.read_to_string(&mut response).await.unwrap();
    assert!(response.starts_with("HTTP/1.1 200 OK"), "{response}");
    let mut streamed = String::new();
    listening.read_to_string(&mut streamed).await.unwrap();
    assert!(streamed.contains("event: process.stopped"), "{streamed}");
    assert!(TcpStream::connect(address).await.is_err(), "the port is closed");
    assert_eq!(punctual.events().count("attempt.succeeded"), 1);
    assert_eq!(punctual.events().count("message.enqueued"), 2, "also the late one is stored");
}

#[tokio::test]
async fn a_signal_before_the_start_stops_without_an_error() {
    let punctual = Punctual::builder().build().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stopped = serve_until(listener, Router::new(), &punctual, async {}).await.unwrap();
    assert!(stopped.is_clean());
}

/// Returns the whole response to a request on a connection of its own.
async fn get_response(address: SocketAddr, path: &str) -> String {
    let mut response = String::new();
    ask(address, path).await.read_to_string(&mut response).await.unwrap();
    response
}

#[tokio::test]
async fn a_lame_duck_is_not_ready_but_still_accepts_connections() {
    let clock = Arc::new(ManualClock::new("2026-03-02T08:00:00Z".parse().unwrap()));
    let punctual = Arc::new(Punctual::builder().clock(clock.clone()).build().unwrap());
    let app = Router::new()
        .route("/peer", get(async |ConnectInfo(peer): ConnectInfo<SocketAddr>| peer.to_string()))
        .nest("/punctual", router(&punctual).unwrap())
        .into_make_service_with_connect_info::<SocketAddr>();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (signal, signalled) = oneshot::channel::<()>();
    let served = punctual.clone();
    let server = tokio::spawn(async move {
        let signal = async { signalled.await.unwrap_or(()) };
        Serve::new(listener, app).lame_duck(Duration::from_secs(5)).run(&served, signal).await
    });
    assert!(get_response(address, "/punctual/health/ready").await.starts_with("HTTP/1.1 200"));

    signal.send(()).unwrap();
    while !punctual.is_stopping() {
        tokio::task::yield_now().await;
    }
    let response = get_response(address, "/punctual/health/ready").await;
    assert!(response.starts_with("HTTP/1.1 503"), "{response}");
    let response = get_response(address, "/peer").await;
    assert!(response.contains("127.0.0.1:"), "{response}");
    assert!(!server.is_finished());
    clock.advance(Duration::from_secs(5));
    assert!(server.await.unwrap().unwrap().is_clean());
    assert!(TcpStream::connect(address).await.is_err(), "the port is closed");
}
