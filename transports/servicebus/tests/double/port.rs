//! Port of the double, and a proxy between the port and the broker that can break connections.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual::clock::add;
use punctual::{Clock as _, Error, Result, SystemClock};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinHandle};

use super::broker::Broker;
use super::serve;

/// Key of the only policy.
pub(crate) const KEY: &str = "bm90IGEgc2VjcmV0";
/// Name of the only policy.
pub(crate) const POLICY: &str = "RootManageSharedAccessKey";

/// Interval at which locks and scheduled messages are checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Broker that listens on a loopback port until it is dropped.
pub(crate) struct Double {
    broker: Arc<Mutex<Broker>>,
    port: u16,
    inner: u16,
    proxy: Mutex<Proxy>,
    tasks: Vec<AbortHandle>,
}

/// Proxy between the port and the broker.
struct Proxy {
    task: Option<JoinHandle<()>>,
    pipes: Arc<Mutex<Vec<AbortHandle>>>,
}

impl Double {
    /// Starts a broker; with `creates` it creates entities on first use.
    pub(crate) async fn start(creates: bool) -> Result<Self> {
        let broker = Arc::new(Mutex::new(Broker::new(creates)));
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(unavailable)?;
        let inner = listener.local_addr().map_err(unavailable)?.port();
        let serving = tokio::spawn(serve::run(listener, broker.clone())).abort_handle();
        let ticking = tokio::spawn(tick(broker.clone())).abort_handle();
        let outer = TcpListener::bind("127.0.0.1:0").await.map_err(unavailable)?;
        let port = outer.local_addr().map_err(unavailable)?.port();
        let proxy = Mutex::new(Proxy::open(outer, inner));
        Ok(Self { broker, port, inner, proxy, tasks: vec![serving, ticking] })
    }

    /// Returns the connection string.
    pub(crate) fn address(&self) -> String {
        self.address_with(KEY)
    }

    /// Returns the connection string with another key.
    pub(crate) fn address_with(&self, key: &str) -> String {
        connection_string(&format!("127.0.0.1:{}", self.port), key)
    }

    /// Returns the connection string through a proxy at another host and port.
    pub(crate) fn address_at(authority: &str) -> String {
        connection_string(authority, KEY)
    }

    /// Returns the port on the loopback interface.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns the state of the broker.
    pub(crate) fn broker(&self) -> MutexGuard<'_, Broker> {
        self.broker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn proxy(&self) -> MutexGuard<'_, Proxy> {
        self.proxy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Breaks every connection without closing it.
    pub(crate) fn cut(&self) {
        self.proxy().cut();
    }

    /// Stops listening and breaks every connection; accepted messages remain.
    pub(crate) async fn stop(&self) {
        let task = {
            let mut proxy = self.proxy();
            proxy.cut();
            proxy.task.take()
        };
        if let Some(task) = task {
            task.abort();
            // The port is free when the task has ended.
            let _ = task.await;
        }
    }

    /// Listens again.
    pub(crate) async fn serve(&self) -> Result<()> {
        let listener = TcpListener::bind(("127.0.0.1", self.port)).await.map_err(unavailable)?;
        *self.proxy() = Proxy::open(listener, self.inner);
        Ok(())
    }
}

impl Drop for Double {
    fn drop(&mut self) {
        let mut proxy = self.proxy();
        proxy.cut();
        proxy.task.take().inspect(JoinHandle::abort);
        drop(proxy);
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

fn connection_string(authority: &str, key: &str) -> String {
    format!(
        "Endpoint=sb://{authority};SharedAccessKeyName={POLICY};SharedAccessKey={key};UseDevelopmentEmulator=true"
    )
}

impl Proxy {
    fn open(listener: TcpListener, inner: u16) -> Self {
        let pipes = Arc::new(Mutex::new(Vec::new()));
        let handles = pipes.clone();
        let task = tokio::spawn(async move {
            while let Ok((mut outside, _)) = listener.accept().await {
                let pipe = tokio::spawn(async move {
                    if let Ok(mut inside) = TcpStream::connect(("127.0.0.1", inner)).await {
                        let _ = outside.set_nodelay(true);
                        let _ = inside.set_nodelay(true);
                        let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
                    }
                });
                handles.lock().unwrap_or_else(PoisonError::into_inner).push(pipe.abort_handle());
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
        SystemClock.sleep_until(add(SystemClock.now(), CHECK_INTERVAL)).await;
    }
}

fn unavailable(error: impl std::fmt::Display) -> Error {
    Error::unavailable(format!("{error:#}"))
}
