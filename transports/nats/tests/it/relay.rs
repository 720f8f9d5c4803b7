//! Stands between a transport and its broker, so that a test can break the connections.

use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// Carries bytes while it is open.
pub(crate) struct Relay {
    /// Where it listens, on the loopback address.
    pub(crate) port: u16,
    open: Arc<watch::Sender<bool>>,
    carrying: JoinHandle<()>,
}

impl Relay {
    /// One in front of a broker.
    pub(crate) async fn new(address: &str) -> std::io::Result<Self> {
        let target = address.trim_start_matches("nats://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let open = Arc::new(watch::Sender::new(true));
        let carrying = tokio::spawn(carry(listener, target, Arc::clone(&open)));
        Ok(Self { port, open, carrying })
    }

    /// Its own address.
    pub(crate) fn address(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Opens or closes it; closing breaks what it carries and refuses what comes.
    pub(crate) fn set(&self, open: bool) {
        self.open.send_replace(open);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.carrying.abort();
    }
}

async fn carry(listener: TcpListener, target: String, open: Arc<watch::Sender<bool>>) {
    let mut carried = JoinSet::new();
    while let Ok((mut near, _)) = listener.accept().await {
        if !*open.borrow() {
            continue;
        }
        let (mut cut, target) = (open.subscribe(), target.clone());
        carried.spawn(async move {
            // A broker that is away refuses, and so do we.
            let Ok(mut far) = TcpStream::connect(target).await else { return };
            tokio::select! {
                _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                _ = cut.changed() => {}
            }
        });
    }
}
