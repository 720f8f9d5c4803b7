//! Connections over a real socket: slow clients, floods, streams and the shutdown of a server. The clients are plain
//! sockets, so that they can do what no HTTP client does.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use punctual::SystemClock;
use punctual::clock::{Clock, add, between, within};
use punctual_server::config::{ConfigDuration, ConnectionsConfig, Networks, Sources};
use punctual_server::{Assembly, RunningServer, listen};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::running_server::settle;
use crate::work::idle;

/// Timeout that is long enough on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

async fn start(text: &str) -> RunningServer {
    let mut sources = Sources::default();
    sources.flags.push(("--listen", "server.listen", "127.0.0.1:0".to_owned()));
    sources.flags.push(("--storage", "storage.address", "memory:".to_owned()));
    let loaded = sources.load_text("punctual.toml", text).unwrap();
    Assembly { loaded, sources, demo: false }.start().await.unwrap()
}

/// Connects from one of the many addresses of this machine.
async fn connect(to: SocketAddr, from: u8) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, from)), 0)).unwrap();
    within(&SystemClock, add(SystemClock.now(), TIMEOUT), socket.connect(to))
        .await
        .unwrap()
        .unwrap()
}

/// Reads until the end of a connection.
async fn end(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let reading = stream.read_to_end(&mut bytes);
    let _ = within(&SystemClock, add(SystemClock.now(), TIMEOUT), reading).await.expect("it ends");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Sends a request and reads the response; the connection stays open.
async fn ask(stream: &mut TcpStream, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let _ = stream.write_all(request.as_bytes()).await;
    let (mut response, mut buffer) = (String::new(), vec![0; 16_384]);
    let reading = async {
        while let Ok(count @ 1..) = stream.read(&mut buffer).await {
            response.push_str(&String::from_utf8_lossy(&buffer[..count]));
            if let Some((head, body)) = response.split_once("\r\n\r\n") {
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                if length.is_none_or(|length| body.len() >= length.parse().unwrap()) {
                    break;
                }
            }
        }
    };
    within(&SystemClock, add(SystemClock.now(), TIMEOUT), reading).await.expect("a response");
    response
}

async fn is_open(stream: &mut TcpStream) -> bool {
    let soon = add(SystemClock.now(), Duration::from_millis(200));
    let mut byte = [0];
    within(&SystemClock, soon, stream.read(&mut byte)).await.is_none()
}

// Finding F4 of the security review.
#[tokio::test]
async fn slow_clients_are_closed_within_their_timeouts() {
    let running =
        start("[server.connections]\nheader_timeout = \"1s\"\nidle_timeout = \"4s\"\n").await;
    let address = running.address().unwrap();
    let (mut silent, mut half) = (connect(address, 1).await, connect(address, 1).await);
    half.write_all(b"GET /health/live HTTP/1.1\r\nHost: loc").await.unwrap();
    let mut drop_by_drop = connect(address, 1).await;
    let began = SystemClock.now();
    let dripping = async {
        // Single bytes do not extend the timeout.
        while drop_by_drop.write_all(b"G").await.is_ok() {
            SystemClock.sleep_until(add(SystemClock.now(), Duration::from_millis(100))).await;
        }
    };
    within(&SystemClock, add(SystemClock.now(), TIMEOUT), dripping).await.expect("it ends");
    assert_eq!((end(&mut silent).await, end(&mut half).await), (String::new(), String::new()));
    assert!(between(began, SystemClock.now()) < TIMEOUT / 2, "all of them at about the same time");
    // An idle connection after a request lives longer; an incomplete second header ends sooner.
    let asked_at = SystemClock.now();
    let mut kept = Vec::new();
    for _ in 0..2 {
        let mut stream = connect(address, 1).await;
        let response = ask(&mut stream, "/health/live").await;
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
        kept.push(stream);
    }
    let continued_at = SystemClock.now();
    kept[1].write_all(b"GET /he").await.unwrap();
    end(&mut kept[1]).await;
    assert!(between(continued_at, SystemClock.now()) >= Duration::from_secs(1));
    end(&mut kept[0]).await;
    assert!(between(asked_at, SystemClock.now()) >= Duration::from_secs(4));
    let metrics = ask(&mut connect(address, 1).await, "/metrics").await;
    let counted = |reason, count| {
        let line =
            format!("punctual_http_connections_closed_total{{reason=\"{reason}\"}} {count}\n");
        assert!(metrics.contains(&line), "{line}{metrics}");
    };
    counted("header_timeout", 4);
    counted("idle_timeout", 1);
    running.shutdown().await;
}

// Finding F4 of the security review.
#[tokio::test]
async fn an_incomplete_body_ends_with_the_request_timeout() {
    let site = idle();
    let listening = listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listening.address();
    tokio::spawn(listening.serve(site.router.clone(), std::future::pending()));
    for path in ["/api/v1/messages", "/api/v1/work/claim"] {
        let mut stream = connect(address, 1).await;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{{\"to"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let reading = async {
            let mut bytes = [0; 64];
            let count = loop {
                // By the clock of the server, which only the test advances.
                site.clock.advance(Duration::from_secs(10));
                settle().await;
                let soon = add(SystemClock.now(), Duration::from_millis(50));
                if let Some(read) = within(&SystemClock, soon, stream.read(&mut bytes)).await {
                    break read.unwrap();
                }
            };
            String::from_utf8_lossy(&bytes[..count]).into_owned()
        };
        let response = within(&SystemClock, add(SystemClock.now(), TIMEOUT), reading).await;
        let response = response.expect("it ends");
        assert!(
            response.starts_with("HTTP/1.1 503") || response.starts_with("HTTP/1.1 408"),
            "{response}"
        );
    }
}

// Finding F4 of the security review.
#[tokio::test]
async fn a_flood_from_one_address_leaves_room_for_others_and_for_jobs() {
    let running = start(
        "[server.connections]\nlimit = 16\nlimit_per_address = 4\nexempt = []\n\
         [jobs.clock]\nevery = \"1s\"\npublish = { topic = \"clock\" }\n",
    )
    .await;
    let address = running.address().unwrap();
    let mut flood = Vec::new();
    for _ in 0..100 {
        let mut stream = connect(address, 1).await;
        let _ = stream.write_all(b"G").await;
        flood.push(stream);
    }
    let mut open = 0;
    for stream in &mut flood[..20] {
        open += usize::from(is_open(stream).await);
    }
    assert_eq!(open, 4, "the first ones are served, the others were closed at once");
    let response = ask(&mut connect(address, 2).await, "/health/live").await;
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    let metrics = ask(&mut connect(address, 2).await, "/metrics").await;
    let refused = "punctual_http_connections_refused_total{reason=\"address\"} 96\n";
    assert!(metrics.contains(refused), "{metrics}");
    let jobs = async {
        while !ask(&mut connect(address, 3).await, "/api/v1/messages?topic=clock")
            .await
            .contains("\"id\"")
        {
            SystemClock.sleep_until(add(SystemClock.now(), Duration::from_millis(100))).await;
        }
    };
    within(&SystemClock, add(SystemClock.now(), TIMEOUT), jobs).await.expect("jobs run");
    assert!(running.shutdown().await.is_clean());
}

// Finding F4 of the security review.
#[tokio::test]
async fn a_flood_from_many_addresses_leaves_room_for_active_clients() {
    let running =
        start("[server.connections]\nlimit = 8\nlimit_per_address = 2\nexempt = []\n").await;
    let address = running.address().unwrap();
    // Two connections with a request in progress stay open.
    let mut streams = [connect(address, 200).await, connect(address, 200).await];
    for stream in &mut streams {
        let head = b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n";
        stream.write_all(head).await.unwrap();
        let mut bytes = [0; 1_024];
        let read = within(&SystemClock, add(SystemClock.now(), TIMEOUT), stream.read(&mut bytes));
        assert!(read.await.unwrap().unwrap() > 0);
    }
    let mut flood = Vec::new();
    for from in 1..100 {
        flood.push(connect(address, from).await);
    }
    for _ in 0..3 {
        let response = ask(&mut connect(address, 150).await, "/health/live").await;
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    }
    let mut open = String::new();
    for stream in &mut streams {
        let mut bytes = [0; 1_024];
        let soon = add(SystemClock.now(), Duration::from_millis(50));
        let read = within(&SystemClock, soon, stream.read(&mut bytes)).await;
        assert!(read.is_none_or(|read| read.unwrap() > 0), "an event stream stays open");
        open.push('.');
    }
    assert_eq!(open, "..");
    running.shutdown().await;
}

#[tokio::test]
async fn a_stream_outlives_the_timeouts_and_ends_at_shutdown() {
    let running = start(
        "[server.connections]\nheader_timeout = \"1s\"\nidle_timeout = \"1s\"\nwrite_timeout = \"1s\"\n",
    )
    .await;
    let address = running.address().unwrap();
    let mut stream = connect(address, 1).await;
    let head = b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.write_all(head).await.unwrap();
    let mut bytes = [0; 1_024];
    let until = add(SystemClock.now(), Duration::from_secs(3));
    while SystemClock.now() < until {
        let read = within(&SystemClock, until, stream.read(&mut bytes)).await;
        assert!(read.is_none_or(|read| read.unwrap() > 0), "it was closed");
    }
    let mut silent = connect(address, 1).await;
    let stopped = within(&SystemClock, add(SystemClock.now(), TIMEOUT), running.shutdown()).await;
    assert!(stopped.expect("it stops").is_clean());
    end(&mut silent).await;
    end(&mut stream).await;
}

#[tokio::test]
async fn http_2_works_and_a_client_that_does_not_read_is_closed() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let running = start("").await;
    let url = format!("http://{}/health/live", running.address().unwrap());
    let client = reqwest::Client::builder().no_proxy().http2_prior_knowledge().build().unwrap();
    let response = client.get(&url).send().await.unwrap();
    assert_eq!((response.status().as_u16(), response.version()), (200, reqwest::Version::HTTP_2));
    running.shutdown().await;
    // Responses larger than the buffers of the system.
    let large =
        axum::Router::new().route("/", axum::routing::get(|| async { "x".repeat(64 << 20) }));
    let config = ConnectionsConfig {
        write_timeout: ConfigDuration::seconds(1),
        exempt: Networks::default(),
        ..ConnectionsConfig::default()
    };
    let listening = listen("127.0.0.1:0".parse().unwrap()).await.unwrap().limited(config);
    let address = listening.address();
    tokio::spawn(listening.serve(large, std::future::pending()));
    let mut stream = connect(address, 1).await;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    SystemClock.sleep_until(add(SystemClock.now(), Duration::from_secs(3))).await;
    let response = end(&mut stream).await;
    assert!(response.len() < 64 << 20, "{}", response.len());
}
