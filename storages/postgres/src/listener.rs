//! Listener: the one connection that receives notifications. It reconnects whenever it ends, for as long as the
//! storage exists, and then notifies every subscriber, because notifications may have been missed.

use std::future::poll_fn;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use punctual::clock::add;
use punctual::{Error, Result};
use tokio_postgres::AsyncMessage;

use crate::address::Address;
use crate::error::StorageError;
use crate::inner::Inner;
use crate::notifications;

/// First and longest pause before the listener reconnects.
const WAIT_MIN: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Listens until the storage is dropped.
pub(crate) async fn listen(inner: Weak<Inner>, address: Address) {
    let mut wait = WAIT_MIN;
    loop {
        let Some(here) = inner.upgrade() else { return };
        let clock = Arc::clone(&here.clock);
        match open(&here, &address).await {
            Err(error) => {
                tracing::debug!(%error, "the listener cannot connect; changes of other processes are found by polling");
            }
            Ok(mut connection) => {
                wait = WAIT_MIN;
                here.notify_everything();
                // Behind a pooler LISTEN may succeed without ever receiving a notification; receiving one's own
                // is the proof.
                if let Err(error) = here.probe_listener().await {
                    tracing::debug!(%error, "the listener could not be probed");
                }
                drop(here);
                receive(&inner, &mut connection).await;
            }
        }
        let Some(here) = inner.upgrade() else { return };
        here.is_listening.store(false, Ordering::Release);
        drop(here);
        clock.sleep_until(add(clock.now(), wait)).await;
        wait = (wait * 2).min(WAIT_MAX);
    }
}

/// Connection that listens; it receives only while it is polled.
struct ListenerConnection {
    // Dropping the client would end the connection.
    _client: tokio_postgres::Client,
    messages: futures_util::stream::BoxStream<'static, Result<AsyncMessage, tokio_postgres::Error>>,
}

async fn open(inner: &Inner, address: &Address) -> Result<ListenerConnection> {
    use futures_util::StreamExt as _;

    let (client, mut connection) = inner.pool.connect(address, "punctual listener").await?;
    let messages = futures_util::stream::poll_fn(move |cx| connection.poll_message(cx));
    let mut messages = messages.boxed();
    let listen = format!("LISTEN \"{}\"", inner.channel);
    {
        let listening = inner.with_timeout(async { Ok(client.batch_execute(&listen).await?) });
        let mut listening = std::pin::pin!(listening);
        loop {
            tokio::select! {
                biased;
                result = &mut listening => break result.map_err(StorageError::error_for_caller)?,
                message = messages.next() => {
                    if message.is_none_or(|message| message.is_err()) {
                        return Err(Error::unavailable("the connection of the listener ended"));
                    }
                }
            }
        }
    }
    Ok(ListenerConnection { _client: client, messages })
}

/// Notifies subscribers of what other processes send, until the connection ends.
async fn receive(inner: &Weak<Inner>, connection: &mut ListenerConnection) {
    loop {
        let message = poll_fn(|cx| connection.messages.as_mut().poll_next(cx)).await;
        let Some(Ok(message)) = message else { return };
        let Some(here) = inner.upgrade() else { return };
        let AsyncMessage::Notification(notification) = message else { continue };
        match notifications::decode(notification.payload()) {
            Some((sender, _, _)) if sender == here.sender => {
                here.is_listening.store(true, Ordering::Release);
            }
            Some((_, due_at, line)) => here.notify_here(line.as_ref(), due_at),
            // An unknown payload on our channel: better to poll once too often than to miss a message.
            None => here.notify_everything(),
        }
    }
}
