//! Proxy in front of a real server: forwards connections, and can cut them or slow them down.

use std::time::Duration;

use punctual::clock::add;
use punctual::{Clock, SystemClock};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// TCP proxy between a back-end and its server. Dropping it closes its connections.
pub struct Proxy {
    address: String,
    state: watch::Sender<State>,
    _serving: JoinSet<()>,
}

#[derive(Clone, Copy)]
struct State {
    /// Number of cuts so far. A connection from before the last cut ends, even when the proxy was repaired immediately.
    cuts: u64,
    is_open: bool,
    slowness: Slowness,
}

/// Delays that the proxy adds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slowness {
    /// Before a new connection reaches the server.
    pub connect: Duration,
    /// Before what the client sends reaches the server.
    pub request: Duration,
    /// Before what the server sends reaches the client.
    pub response: Duration,
}

/// Largest number of bytes forwarded in one step.
const CHUNK_BYTES: usize = 64 << 10;

impl Proxy {
    /// Forwards to the server at an address such as `scheme://user:password@host:port/path?query`. The
    /// proxy's address differs in host and port only.
    pub async fn to(address: &str) -> Self {
        let server = authority(address);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here = listener.local_addr().unwrap().to_string();
        let (before, after) = address.split_at(server.start);
        let address = format!("{before}{here}{}", &after[server.len()..]);
        let server = after[..server.len()].to_owned();
        let (state, seen) =
            watch::channel(State { cuts: 0, is_open: true, slowness: Slowness::default() });
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, server, seen));
        Self { address, state, _serving: serving }
    }

    /// Returns the server's address with the host and port of the proxy.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Cuts every connection; new connections are closed immediately.
    pub fn cut(&self) {
        self.state.send_modify(|state| {
            state.cuts += 1;
            state.is_open = false;
        });
    }

    /// Delays connections that are opened after this call.
    pub fn slow_down(&self, slowness: Slowness) {
        self.state.send_modify(|state| state.slowness = slowness);
    }

    /// Accepts connections again after a cut.
    pub fn mend(&self) {
        self.state.send_modify(|state| state.is_open = true);
    }
}

/// Where host and port stand in an address.
fn authority(address: &str) -> std::ops::Range<usize> {
    let start = address.find("://").map_or(0, |at| at + 3);
    let end = address[start..].find(['/', '?']).map_or(address.len(), |at| start + at);
    let start = address[start..end].rfind('@').map_or(start, |at| start + at + 1);
    start..end
}

async fn serve(listener: TcpListener, server: String, state: watch::Receiver<State>) {
    let mut passing = JoinSet::new();
    while let Ok((near, _)) = listener.accept().await {
        let State { cuts, is_open, slowness } = *state.borrow();
        if !is_open {
            continue;
        }
        let (server, mut state) = (server.clone(), state.clone());
        passing.spawn(async move {
            pause(slowness.connect).await;
            // Without a server the client's connection is closed.
            let Ok(far) = TcpStream::connect(server).await else { return };
            tokio::select! {
                _ = state.wait_for(|now| now.cuts != cuts) => {}
                () = forward(near, far, slowness) => {}
            }
        });
    }
}

/// Forwards bytes in both directions until both have ended.
async fn forward(mut near: TcpStream, mut far: TcpStream, slowness: Slowness) {
    let (mut from_client, mut to_client) = near.split();
    let (mut from_server, mut to_server) = far.split();
    tokio::join!(
        copy(&mut from_client, &mut to_server, slowness.request),
        copy(&mut from_server, &mut to_client, slowness.response),
    );
}

/// Forwards bytes in one direction until it ends, each chunk after a delay.
async fn copy(
    from: &mut (impl tokio::io::AsyncRead + Unpin),
    to: &mut (impl tokio::io::AsyncWrite + Unpin),
    delay: Duration,
) {
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Ok(length @ 1..) = from.read(&mut chunk).await {
        pause(delay).await;
        if to.write_all(&chunk[..length]).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}

async fn pause(duration: Duration) {
    if !duration.is_zero() {
        SystemClock.sleep_until(add(SystemClock.now(), duration)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_port_are_found_in_an_address() {
        for (address, found) in [
            ("redis://127.0.0.1:6379/", "127.0.0.1:6379"),
            ("nats://host:4222", "host:4222"),
            ("amqp://guest:gu@st@host:5672/%2f?heartbeat=5", "host:5672"),
            ("http://key:secret@host:9324?region=nowhere", "host:9324"),
            ("host:1", "host:1"),
        ] {
            assert_eq!(&address[authority(address)], found);
        }
    }

    #[tokio::test]
    async fn connections_are_cut_and_accepted_again_after_mending() {
        let echo = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("tcp://me@{}/path", echo.local_addr().unwrap());
        let proxy = Proxy::to(&address).await;
        let there = proxy.address()["tcp://me@".len()..].trim_end_matches("/path").to_owned();
        let mut near = TcpStream::connect(&there).await.unwrap();
        let (mut far, _) = echo.accept().await.unwrap();
        far.write_all(b"x").await.unwrap();
        assert_eq!(near.read_u8().await.unwrap(), b'x');
        // Both at once: what was connected is cut all the same.
        proxy.cut();
        proxy.mend();
        assert!(near.read_u8().await.is_err());
        let mut near = TcpStream::connect(&there).await.unwrap();
        let (mut far, _) = echo.accept().await.unwrap();
        far.write_all(b"y").await.unwrap();
        assert_eq!(near.read_u8().await.unwrap(), b'y');
        proxy.cut();
        let mut refused = TcpStream::connect(&there).await.unwrap();
        assert!(refused.read_u8().await.is_err());
    }
}
