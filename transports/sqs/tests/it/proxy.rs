//! A network that breaks: passes connections on to the endpoint until it is told to cut them.

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Stands between the transport and the endpoint.
pub(crate) struct Proxy {
    /// The address through the proxy.
    pub(crate) address: String,
    is_open: watch::Sender<bool>,
    _task: JoinSet<()>,
}

impl Proxy {
    /// Passes on to the endpoint at an address of the form `http://key:secret@host:port/?rest`.
    pub(crate) async fn to(address: &str) -> Self {
        let (before, after) = address.split_once('@').expect("an address with a key");
        let (server, rest) = after.split_once('/').unwrap_or((after, ""));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("it listens").port();
        let (is_open, opened) = watch::channel(true);
        let mut task = JoinSet::new();
        task.spawn(serve(listener, server.to_owned(), opened));
        let address = format!("{before}@127.0.0.1:{port}/{rest}");
        Self { address, is_open, _task: task }
    }

    /// Cuts every connection; new ones end at once.
    pub(crate) fn cut(&self) {
        self.is_open.send_replace(false);
    }

    pub(crate) fn mend(&self) {
        self.is_open.send_replace(true);
    }
}

async fn serve(listener: TcpListener, server: String, opened: watch::Receiver<bool>) {
    let mut passing = JoinSet::new();
    loop {
        let Ok((mut near, _)) = listener.accept().await else { continue };
        if !*opened.borrow() {
            continue;
        }
        let (server, mut opened) = (server.clone(), opened.clone());
        passing.spawn(async move {
            let Ok(mut far) = TcpStream::connect(server).await else { return };
            tokio::select! {
                _ = opened.wait_for(|is_open| !is_open) => {}
                _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
            }
        });
    }
}
