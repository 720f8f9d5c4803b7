//! Consumer: a task claims due files and sends them to the consumer as deliveries, never more than the prefetch.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual::backend::transport::back_off::BackOff;
use punctual::backend::transport::prefetch::{PrefetchReceiver, PrefetchSender, prefetch_channel};
use punctual::backend::transport::{Consumer, Delivery, Receipt};
use punctual::backend::wire::{RawMessage, receive};
use punctual::clock::add;
use punctual::jiff::Timestamp;
use punctual::{Clock as _, Result, SystemClock};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::blocking;
use crate::group::{Claimed, Group};
use crate::receipt::FolderReceipt;

/// Interval between two reads of an empty folder.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Looks between two searches for the claims of dead processes.
const RECOVER_EVERY: u32 = 50;
/// Waits after an error.
const BACK_OFF: BackOff = BackOff::new(Duration::from_millis(100), Duration::from_secs(10));

pub(crate) struct FolderConsumer {
    deliveries: PrefetchReceiver<Delivery>,
}

impl FolderConsumer {
    /// Starts the task that reads.
    pub(crate) fn start(group: Arc<Group>, prefetch: usize) -> Self {
        let (sender, deliveries) = prefetch_channel(prefetch);
        let slots = Arc::new(Semaphore::new(prefetch));
        tokio::spawn(async move {
            tokio::select! {
                () = read(&group, &sender, &slots) => {}
                () = sender.stopped() => {}
            }
        });
        Self { deliveries }
    }
}

#[async_trait]
impl Consumer for FolderConsumer {
    async fn receive(&mut self, limit: usize) -> Result<Vec<Delivery>> {
        self.deliveries.receive(limit).await
    }

    async fn close(&mut self, _until: Timestamp) -> Result<()> {
        self.deliveries.stop();
        // A delivery that is dropped makes its file pending again.
        drop(self.deliveries.close());
        Ok(())
    }
}

/// Claims files as long as there is room, and waits after an error until the next receive call.
async fn read(group: &Arc<Group>, sender: &PrefetchSender<Delivery>, slots: &Arc<Semaphore>) {
    let mut back_off = BACK_OFF;
    for look in 0_u32.. {
        let Ok(first) = slots.clone().acquire_owned().await else { return };
        let mut permits = vec![first];
        while let Ok(permit) = slots.clone().try_acquire_owned() {
            permits.push(permit);
        }
        let (from, limit) = (group.clone(), permits.len());
        let claimed = blocking(move || {
            if look.is_multiple_of(RECOVER_EVERY) {
                from.recover()?;
            }
            from.claim(SystemClock.now(), limit)
        });
        match claimed.await {
            Ok(claimed) if claimed.is_empty() => {
                drop(permits);
                pause(POLL_INTERVAL).await;
            }
            Ok(claimed) => {
                back_off.reset();
                let claimed = claimed.into_iter().zip(permits);
                sender.send(claimed.map(|(one, permit)| delivery(group, one, permit)).collect());
            }
            Err(error) => {
                sender.send_error(error);
                sender.resumed().await;
                pause(back_off.next_wait()).await;
            }
        }
    }
}

async fn pause(wait: Duration) {
    SystemClock.sleep_until(add(SystemClock.now(), wait)).await;
}

/// Reads the message of a claimed file. One that cannot be read is a delivery too, marked as poison.
fn delivery(group: &Arc<Group>, claimed: Claimed, permit: OwnedSemaphorePermit) -> Delivery {
    let Claimed { name, wire } = claimed;
    let content_type = Some(wire.content_type.into_owned()).filter(|text| !text.is_empty());
    let raw = RawMessage {
        topic: &group.topic,
        body: wire.body,
        content_type,
        key: None,
        place: format_args!("{}/{}", group.topic, name.id),
        sent_at: Timestamp::from_microsecond(name.due).unwrap_or(Timestamp::UNIX_EPOCH),
    };
    let headers = wire.headers.iter().map(|(name, value)| (&**name, &**value));
    let decoded = receive(raw, headers);
    let (message, attempt) = (Arc::new(decoded.message), decoded.attempt + name.deliveries);
    let receipt = FolderReceipt::new(group.clone(), name, message.clone(), permit);
    Delivery {
        message,
        attempt,
        poison: decoded.poison,
        receipt: Receipt::Broker(Box::new(receipt)),
    }
}
