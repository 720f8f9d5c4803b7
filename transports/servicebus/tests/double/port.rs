//! Where the broker is: a port, and a door between the port and it that can break.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual::clock::add;
use punctual::{Clock as _, Error, Result, SystemClock};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinHandle};

use super::broker::Broker;
use super::serve;

/// The key of the only policy.
pub(crate) const KEY: &str = "bm90IGEgc2VjcmV0";
/// The name of the only policy.
pub(crate) const POLICY: &str = "RootManageSharedAccessKey";

/// How often locks and scheduled messages are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A broker that serves on a loopback port until it is dropped.
pub(crate) struct Double {
    broker: Arc<Mutex<Broker>>,
    port: u16,
    inner: u16,
    door: Mutex<Door>,
    tasks: Vec<AbortHandle>,
}

/// Everything between the port and the broker, which can break.
struct Door {
    task: Option<JoinHandle<()>>,
    pipes: Arc<Mutex<Vec<AbortHandle>>>,
}

impl Double {
    /// Starts one; entities that are asked for come into being when `creates` says so.
    pub(crate) async fn start(creates: bool) -> Result<Self> {
        let broker = Arc::new(Mutex::new(Broker::new(creates)));
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(unwell)?;
        let inner = listener.local_addr().map_err(unwell)?.port();
        let serving = tokio::spawn(serve::run(listener, broker.clone())).abort_handle();
        let ticking = tokio::spawn(tick(broker.clone())).abort_handle();
        let outer = TcpListener::bind("127.0.0.1:0").await.map_err(unwell)?;
        let port = outer.local_addr().map_err(unwell)?.port();
        let door = Mutex::new(Door::open(outer, inner));
        Ok(Self { broker, port, inner, door, tasks: vec![serving, ticking] })
    }

    /// The connection string.
    pub(crate) fn address(&self) -> String {
        self.address_with(KEY)
    }

    /// The connection string with another key.
    pub(crate) fn address_with(&self, key: &str) -> String {
        format!(
            "Endpoint=sb://127.0.0.1:{};SharedAccessKeyName={POLICY};SharedAccessKey={key};UseDevelopmentEmulator=true",
            self.port
        )
    }

    /// Where it listens on the loopback.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// What is in it.
    pub(crate) fn broker(&self) -> MutexGuard<'_, Broker> {
        self.broker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn door(&self) -> MutexGuard<'_, Door> {
        self.door.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Breaks every connection without a word.
    pub(crate) fn cut(&self) {
        self.door().cut();
    }

    /// Goes away, connections and port and all; what was accepted stays.
    pub(crate) async fn stop(&self) {
        let task = {
            let mut door = self.door();
            door.cut();
            door.task.take()
        };
        if let Some(task) = task {
            task.abort();
            // The port is free when the task is gone.
            let _ = task.await;
        }
    }

    /// Comes back.
    pub(crate) async fn serve(&self) -> Result<()> {
        let listener = TcpListener::bind(("127.0.0.1", self.port)).await.map_err(unwell)?;
        *self.door() = Door::open(listener, self.inner);
        Ok(())
    }
}

impl Drop for Double {
    fn drop(&mut self) {
        let mut door = self.door();
        door.cut();
        door.task.take().inspect(JoinHandle::abort);
        drop(door);
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Door {
    fn open(listener: TcpListener, inner: u16) -> Self {
        let pipes = Arc::new(Mutex::new(Vec::new()));
        let kept = pipes.clone();
        let task = tokio::spawn(async move {
            while let Ok((mut outside, _)) = listener.accept().await {
                let pipe = tokio::spawn(async move {
                    if let Ok(mut inside) = TcpStream::connect(("127.0.0.1", inner)).await {
                        let _ = outside.set_nodelay(true);
                        let _ = inside.set_nodelay(true);
                        let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
                    }
                });
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(pipe.abort_handle());
            }
        });
        Self { task: Some(task), pipes }
    }

    fn cut(&self) {
        let mut pipes = self.pipes.lock().unwrap_or_else(PoisonError::into_inner);
        pipes.drain(..).for_each(|pipe| pipe.abort());
    }
}

async fn tick(broker: Arc<Mutex<Broker>>) {
    loop {
        broker.lock().unwrap_or_else(PoisonError::into_inner).tick(SystemClock.now());
        SystemClock.sleep_until(add(SystemClock.now(), LOOK_EVERY)).await;
    }
}

fn unwell(error: impl std::fmt::Display) -> Error {
    Error::unavailable(format!("{error:#}"))
}
