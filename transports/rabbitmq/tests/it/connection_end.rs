//! Settlements at the moment a connection ends. A settlement that is queued after the client's thread has ended
//! and before its task has, never returns from the client; the receipt must return nevertheless.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use punctual::backend::transport::Acknowledge;
use punctual::model::DeadReason;
use punctual::{Error, Result};
use punctual_conformance::backend_tests;
use punctual_conformance::backend_tests::messaging::{
    body, next, publish, receipt, rejection, subscribe, with_timeout,
};
use punctual_conformance::cases;
use tokio::runtime::Builder;

use crate::fixture::{Fixture, VARIABLE};

cases!(
    an_acknowledgement_at_the_end_of_a_connection_returns,
    a_requeue_at_the_end_of_a_connection_returns,
    a_rejection_at_the_end_of_a_connection_returns,
);

/// One connection to publish and one to consume.
const CONNECTIONS: usize = 2;
/// Longest wait for the client to notice that a connection has ended.
const NOTICED_WITHIN: Duration = Duration::from_secs(20);

async fn an_acknowledgement_at_the_end_of_a_connection_returns() {
    settled_late(async |receipt| receipt.ack().await).await;
}

async fn a_requeue_at_the_end_of_a_connection_returns() {
    settled_late(async |receipt| receipt.requeue(Duration::ZERO).await).await;
}

async fn a_rejection_at_the_end_of_a_connection_returns() {
    settled_late(async |receipt| receipt.reject(&rejection(DeadReason::AttemptsSpent)).await).await;
}

/// Settles when the thread of the client has ended and its task has not run since. The message must be delivered
/// again.
async fn settled_late<Settle>(settle: Settle)
where
    Settle: AsyncFnOnce(Box<dyn Acknowledge>) -> Result<()> + Send + 'static,
{
    let fixture = Fixture::new();
    let straight = fixture.open().await;
    let prefix = fixture.prefix.clone();
    let settled = tokio::task::spawn_blocking(move || {
        // One thread, so that the task of the client runs only when this test yields.
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let ending = EndingProxy::to(&backend_tests::address(VARIABLE));
            let builder = Fixture { prefix }.builder_at(&ending.address);
            let transport = builder.connect().await.unwrap();
            let mut consumer = subscribe(&transport, "g", 100).await;
            publish(&transport, &["a"]).await;
            let first = next(&mut *consumer).await;
            ending.end();
            // Lets the client's thread see that its connections have ended.
            tokio::task::yield_now().await;
            ending.wait_until_closed();
            with_timeout(settle(receipt(first))).await.unwrap_err()
        })
    });
    let error: Error = settled.await.unwrap();
    assert!(error.is_temporary(), "{error}");
    let mut consumer = subscribe(&straight, "g", 100).await;
    let again = next(&mut *consumer).await;
    assert_eq!((body(&again), again.attempt), ("a".to_owned(), 2));
}

/// Proxy on threads of its own, which ends connections from the broker's side.
struct EndingProxy {
    address: String,
    near: Arc<Mutex<Vec<TcpStream>>>,
    closed: Receiver<()>,
}

impl EndingProxy {
    fn to(address: &str) -> Self {
        let (before, rest) = address.rsplit_once('@').unwrap();
        let (server, path) = rest.split_once('/').unwrap();
        let (server, listener) = (server.to_owned(), TcpListener::bind("127.0.0.1:0").unwrap());
        let address = format!("{before}@{}/{path}", listener.local_addr().unwrap());
        let (near, (sender, closed)) = (Arc::new(Mutex::new(Vec::new())), channel());
        let accepted = near.clone();
        thread::spawn(move || {
            for stream in listener.incoming().take(CONNECTIONS) {
                let (stream, far) = (stream.unwrap(), TcpStream::connect(&server).unwrap());
                accepted.lock().unwrap().push(stream.try_clone().unwrap());
                pass(stream, far, sender.clone());
            }
        });
        Self { address, near, closed }
    }

    fn end(&self) {
        for stream in &*self.near.lock().unwrap() {
            stream.shutdown(Shutdown::Write).unwrap();
        }
    }

    /// Waits without letting any task run.
    fn wait_until_closed(&self) {
        for _ in 0..CONNECTIONS {
            self.closed.recv_timeout(NOTICED_WITHIN).expect("the client closes its connections");
        }
    }
}

/// Copies both ways; notifies when the client has closed its side.
fn pass(near: TcpStream, far: TcpStream, closed: Sender<()>) {
    let (mut near_back, mut far_back) = (near.try_clone().unwrap(), far.try_clone().unwrap());
    thread::spawn(move || io::copy(&mut far_back, &mut near_back));
    let (mut near, mut far) = (near, far);
    thread::spawn(move || {
        // A connection that is reset is closed as well.
        let _ = io::copy(&mut near, &mut far);
        let _ = far.shutdown(Shutdown::Both);
        let _ = closed.send(());
    });
}
