//! Receipt: settles one delivery by moving or removing its file.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual::backend::transport::{Acknowledge, Rejection};
use punctual::backend::wire::Wire;
use punctual::model::Message;
use punctual::{Clock as _, Result, SystemClock};
use tokio::sync::OwnedSemaphorePermit;

use crate::blocking;
use crate::group::Group;
use crate::name::FileName;

/// Delay of a delivery that was dropped unsettled, as when the storage is unavailable.
const DROPPED_DELAY: Duration = Duration::from_secs(1);

pub(crate) struct FolderReceipt {
    group: Arc<Group>,
    name: FileName,
    message: Arc<Message>,
    is_settled: bool,
    /// Room in the prefetch, free again when the delivery is settled or dropped.
    _permit: OwnedSemaphorePermit,
}

impl FolderReceipt {
    pub(crate) fn new(
        group: Arc<Group>,
        name: FileName,
        message: Arc<Message>,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        Self { group, name, message, is_settled: false, _permit: permit }
    }

    /// Runs what settles the delivery. After an error the drop releases it.
    async fn settle(self, work: impl FnOnce(&Self) -> Result<()> + Send + 'static) -> Result<()> {
        blocking(move || {
            let mut receipt = self;
            let settled = work(&receipt);
            receipt.is_settled = settled.is_ok();
            settled
        })
        .await
    }
}

#[async_trait]
impl Acknowledge for FolderReceipt {
    async fn ack(self: Box<Self>) -> Result<()> {
        self.settle(|receipt| receipt.group.remove(&receipt.name)).await
    }

    async fn requeue(self: Box<Self>, delay: Duration) -> Result<()> {
        self.settle(move |receipt| receipt.group.release(&receipt.name, SystemClock.now(), delay))
            .await
    }

    async fn reject(self: Box<Self>, rejection: &Rejection) -> Result<()> {
        let letter = Wire::dead(&self.message, rejection)?;
        let invalid = rejection.is_invalid();
        self.settle(move |receipt| receipt.group.bury(&receipt.name, &letter, invalid)).await
    }
}

impl Drop for FolderReceipt {
    fn drop(&mut self) {
        if !self.is_settled {
            // A file that cannot be moved now is released when this process has ended.
            let _ = self.group.release(&self.name, SystemClock.now(), DROPPED_DELAY);
        }
    }
}
