//! Renewal of the visibility timeout of deliveries in flight.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use punctual::Result;
use punctual::backend::transport::renewal::Renew;
use punctual::jiff::Timestamp;

use crate::producer::CALL_MAX;
use crate::receipt::ReceiptHandle;
use crate::settler::{BATCH_MAX, QueueClient};

/// Renews the visibility timeout of the deliveries of one queue.
pub(crate) struct VisibilityRenewer {
    pub(crate) queue: Arc<QueueClient>,
    pub(crate) timeout_seconds: i32,
}

#[async_trait]
impl Renew<u64, ReceiptHandle> for VisibilityRenewer {
    async fn renew(&mut self, due: Vec<(u64, ReceiptHandle)>, _now: Timestamp) -> Result<()> {
        let due: Vec<_> =
            due.into_iter().map(|(_, handle)| (handle, self.timeout_seconds)).collect();
        let (mut lost, mut outcome) = (0, Ok(()));
        for batch in due.chunks(BATCH_MAX) {
            let calls = batch.chunks(CALL_MAX).map(|chunk| self.queue.change_visibility(chunk));
            let mut calls: FuturesUnordered<_> = calls.collect();
            while let Some(renewed) = calls.next().await {
                match renewed {
                    Ok(failed) => lost += failed.len(),
                    Err(error) => outcome = Err(error.with("queue", &self.queue.url)),
                }
            }
        }
        if lost > 0 {
            // Some may have been settled during the call.
            let queue = &self.queue.url;
            tracing::debug!(queue, lost, "the visibility timeout of deliveries was not renewed");
        }
        outcome
    }
}
