//! The one connection that listens. It comes back whenever it ends, for as long as the storage is
//! there, and everybody looks when it does, because rings may have been missed.

use std::future::poll_fn;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use punctual::clock::add;
use punctual::{Error, Result};
use tokio_postgres::AsyncMessage;

use crate::address::Address;
use crate::failure::Failure;
use crate::inner::Inner;
use crate::news;

/// The first and the longest wait before listening is tried again.
const WAIT_MIN: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Listens until the storage is dropped.
pub(crate) async fn listen(inner: Weak<Inner>, address: Address) {
    let mut wait = WAIT_MIN;
    loop {
        let Some(here) = inner.upgrade() else { return };
        let clock = Arc::clone(&here.clock);
        match open(&here, &address).await {
            Err(error) => tracing::debug!(%error, "nobody listens for other processes"),
            Ok(mut connection) => {
                wait = WAIT_MIN;
                here.heard_nothing();
                // Through a pooler one may listen and never hear; hearing oneself is the proof.
                if let Err(error) = here.call_oneself().await {
                    tracing::debug!(%error, "whether the listener hears is not known");
                }
                drop(here);
                hear(&inner, &mut connection).await;
            }
        }
        let Some(here) = inner.upgrade() else { return };
        here.hears.store(false, Ordering::Release);
        drop(here);
        clock.sleep_until(add(clock.now(), wait)).await;
        wait = (wait * 2).min(WAIT_MAX);
    }
}

/// A connection that listens; it has to be driven to hear anything.
struct Ears {
    // Closing the client would end the connection.
    _client: tokio_postgres::Client,
    messages: futures_util::stream::BoxStream<'static, Result<AsyncMessage, tokio_postgres::Error>>,
}

async fn open(inner: &Inner, address: &Address) -> Result<Ears> {
    use futures_util::StreamExt as _;

    let (client, mut connection) = inner.pool.connect(address, "punctual listener").await?;
    let messages = futures_util::stream::poll_fn(move |cx| connection.poll_message(cx));
    let mut messages = messages.boxed();
    let listen = format!("LISTEN \"{}\"", inner.channel);
    {
        let listening = inner.bounded(async { Ok(client.batch_execute(&listen).await?) });
        let mut listening = std::pin::pin!(listening);
        loop {
            tokio::select! {
                biased;
                answer = &mut listening => break answer.map_err(Failure::into_error)?,
                message = messages.next() => {
                    if message.is_none_or(|message| message.is_err()) {
                        return Err(Error::unavailable("the connection that listens ended"));
                    }
                }
            }
        }
    }
    Ok(Ears { _client: client, messages })
}

/// Rings for what others tell, until the connection ends.
async fn hear(inner: &Weak<Inner>, ears: &mut Ears) {
    loop {
        let message = poll_fn(|cx| ears.messages.as_mut().poll_next(cx)).await;
        let Some(Ok(message)) = message else { return };
        let Some(here) = inner.upgrade() else { return };
        let AsyncMessage::Notification(notification) = message else { continue };
        match news::read(notification.payload()) {
            Some((sender, _, _)) if sender == here.sender => {
                here.hears.store(true, Ordering::Release);
            }
            Some((_, due_at, line)) => here.heard(line.as_ref(), due_at),
            // Somebody else's words on our channel: better to look than to miss.
            None => here.heard_nothing(),
        }
    }
}
