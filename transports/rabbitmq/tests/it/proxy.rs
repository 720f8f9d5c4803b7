//! A door in front of the broker that can be shut and opened again, cutting whoever is in it.

use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::place::url;

pub(crate) struct Proxy {
    port: u16,
    open: Arc<watch::Sender<bool>>,
}

impl Proxy {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let open = Arc::new(watch::Sender::new(true));
        let target = target();
        let door = open.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                if *door.borrow() {
                    tokio::spawn(carry(stream, target.clone(), door.subscribe()));
                }
            }
        });
        Self { port, open }
    }

    pub(crate) fn url(&self) -> String {
        url().unwrap().replace(&target(), &format!("127.0.0.1:{}", self.port))
    }

    pub(crate) fn shut(&self) {
        self.open.send_replace(false);
    }

    pub(crate) fn open(&self) {
        self.open.send_replace(true);
    }
}

fn target() -> String {
    let url = url().unwrap();
    let host = url.split('@').nth(1).unwrap().split('/').next().unwrap();
    host.to_owned()
}

async fn carry(mut client: TcpStream, target: String, mut door: watch::Receiver<bool>) {
    let Ok(mut broker) = TcpStream::connect(target).await else { return };
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut client, &mut broker) => {}
        _ = door.wait_for(|open| !open) => {}
    }
}
