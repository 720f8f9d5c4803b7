//! Renewal of the visibility timeout, JetStream's `ack_wait`, of deliveries in flight.

use std::sync::Arc;

use async_nats::Subject;
use async_trait::async_trait;
use bytes::Bytes;
use punctual::Result;
use punctual::backend::transport::renewal::Renew;
use punctual::jiff::Timestamp;

use crate::connection::Connection;

/// Renews the timeout of a delivery.
const IN_PROGRESS: Bytes = Bytes::from_static(b"+WPI");

/// Renews the visibility timeout of the deliveries of one consumer.
pub(crate) struct VisibilityRenewer(pub(crate) Arc<Connection>);

#[async_trait]
impl Renew<u64, Subject> for VisibilityRenewer {
    async fn renew(&mut self, due: Vec<(u64, Subject)>, _now: Timestamp) -> Result<()> {
        if !*self.0.connected.borrow() {
            return Ok(());
        }
        for (_, reply) in due {
            self.0.publish(reply, IN_PROGRESS).await?;
        }
        Ok(())
    }
}
