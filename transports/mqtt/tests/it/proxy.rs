//! A broker that goes away: passes connections on to the real one until it is told to cut them.

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Stands between the transport and the broker.
pub(crate) struct Proxy {
    port: u16,
    /// Counts cuts, and says whether it is open.
    state: watch::Sender<(u64, bool)>,
    _task: JoinSet<()>,
}

impl Proxy {
    /// Passes on to the broker at a URL of the form `mqtt://host:port`.
    pub(crate) async fn to(url: &str) -> Self {
        let broker = url.trim_start_matches("mqtt://").trim_end_matches('/').to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (state, seen) = watch::channel((0, true));
        let mut task = JoinSet::new();
        task.spawn(serve(listener, broker, seen));
        Self { port, state, _task: task }
    }

    pub(crate) fn url(&self) -> String {
        format!("mqtt://127.0.0.1:{}", self.port)
    }

    /// Cuts every connection; new ones end at once.
    pub(crate) fn cut(&self) {
        self.state.send_modify(|(cuts, is_open)| (*cuts, *is_open) = (*cuts + 1, false));
    }

    pub(crate) fn mend(&self) {
        self.state.send_modify(|(_, is_open)| *is_open = true);
    }
}

async fn serve(listener: TcpListener, broker: String, state: watch::Receiver<(u64, bool)>) {
    let mut passing = JoinSet::new();
    loop {
        let (mut near, _) = listener.accept().await.unwrap();
        let (cuts, is_open) = *state.borrow();
        if !is_open {
            continue;
        }
        let (broker, mut state) = (broker.clone(), state.clone());
        passing.spawn(async move {
            let Ok(mut far) = TcpStream::connect(broker).await else { return };
            tokio::select! {
                _ = state.wait_for(|(now, _)| *now != cuts) => {}
                _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
            }
        });
    }
}
