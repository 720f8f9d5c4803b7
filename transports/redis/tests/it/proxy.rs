//! A server that goes away: passes connections on to the real one until it is told to cut them.

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Stands between the transport and the server.
pub(crate) struct Proxy {
    port: u16,
    is_open: watch::Sender<bool>,
    _task: JoinSet<()>,
}

impl Proxy {
    /// Passes on to the server at a URL of the form `redis://host:port/`.
    pub(crate) async fn to(url: &str) -> Self {
        let server = url.trim_start_matches("redis://").trim_end_matches('/').to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (is_open, opened) = watch::channel(true);
        let mut task = JoinSet::new();
        task.spawn(serve(listener, server, opened));
        Self { port, is_open, _task: task }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
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
        let (mut near, _) = listener.accept().await.unwrap();
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
