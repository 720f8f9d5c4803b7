//! A door in front of the broker that can be shut and opened again, cutting whoever is in it.

use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Carries connections to the broker at an address while it is open.
pub(crate) struct Proxy {
    address: String,
    open: Arc<watch::Sender<bool>>,
}

impl Proxy {
    /// Opens a door to the broker at this address.
    pub(crate) async fn start(address: &str) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let target = authority(address).to_owned();
        let through = address.replace(&target, &listener.local_addr()?.to_string());
        let open = Arc::new(watch::Sender::new(true));
        let door = open.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                if *door.borrow() {
                    tokio::spawn(carry(stream, target.clone(), door.subscribe()));
                }
            }
        });
        Ok(Self { address: through, open })
    }

    /// The address of the broker through this door.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Cuts every connection and takes no new one.
    pub(crate) fn shut(&self) {
        self.open.send_replace(false);
    }

    /// Takes connections again.
    pub(crate) fn open(&self) {
        self.open.send_replace(true);
    }
}

/// Host and port.
fn authority(address: &str) -> &str {
    let rest = address.split_once('@').map_or(address, |(_, rest)| rest);
    rest.split('/').next().unwrap_or_default()
}

async fn carry(mut client: TcpStream, target: String, mut door: watch::Receiver<bool>) {
    let Ok(mut broker) = TcpStream::connect(target).await else { return };
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut client, &mut broker) => {}
        _ = door.wait_for(|open| !open) => {}
    }
}
