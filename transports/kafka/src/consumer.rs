//! Receiving one subscription: takes from the desk what its reader has put there.

use std::sync::Arc;
use std::thread;

use async_trait::async_trait;
use punctual::clock::{add, within};
use punctual::jiff::Timestamp;
use punctual::transport::{Consumer, Delivery, Receipt};
use punctual::{Clock, Error, Result};

use crate::desk::{Desk, Taken};
use crate::lane::Parcel;
use crate::reader::Reader;
use crate::receipt::{KafkaReceipt, Settling};

/// Receives deliveries of one topic for one group.
pub(crate) struct KafkaConsumer {
    desk: Arc<Desk>,
    settling: Arc<Settling>,
    clock: Arc<dyn Clock>,
}

impl KafkaConsumer {
    /// Joins the group, and starts to read as soon as partitions are given.
    pub(crate) async fn start(reader: Reader, settling: Settling) -> Result<Self> {
        let desk = Arc::clone(&reader.desk);
        let clock = Arc::clone(&reader.settings.clock);
        let patience = reader.settings.join_patience;
        let client = reader.join()?;
        let name = format!("kafka {}", reader.names.group);
        // It is owned by the desk: closing that ends it.
        let thread = thread::Builder::new().name(name).spawn(move || reader.run(client));
        thread.map_err(|error| {
            Error::unavailable(format!("no thread to read Kafka with: {error}")).during("subscribe")
        })?;
        let consumer = Self { desk, settling: Arc::new(settling), clock };
        if !patience.is_zero() {
            let until = add(consumer.clock.now(), patience);
            // It goes on joining when this takes longer.
            let _ = within(&*consumer.clock, until, consumer.desk.joined()).await;
        }
        Ok(consumer)
    }

    fn delivery(&self, parcel: Parcel) -> Delivery {
        Delivery {
            message: Arc::clone(&parcel.message),
            attempt: parcel.attempt,
            poison: parcel.poison.as_deref().map(str::to_owned),
            receipt: Receipt::Broker(Box::new(KafkaReceipt::new(
                Arc::clone(&self.settling),
                parcel,
            ))),
        }
    }
}

#[async_trait]
impl Consumer for KafkaConsumer {
    async fn receive(&mut self, limit: usize) -> Result<Vec<Delivery>> {
        loop {
            match self.desk.take(limit.max(1)) {
                Taken::Parcels(parcels) => {
                    return Ok(parcels.into_iter().map(|parcel| self.delivery(parcel)).collect());
                }
                Taken::Trouble(error) => return Err(error),
                Taken::Over => {
                    return Err(Error::conflict("the consumer is closed; subscribe again"));
                }
                Taken::Nothing => self.desk.changed().await,
            }
        }
    }

    async fn close(&mut self, until: Timestamp) -> Result<()> {
        self.desk.close();
        let ended = async {
            while !self.desk.is_closed() {
                self.desk.changed().await;
            }
        };
        within(&*self.clock, until, ended).await.ok_or_else(|| {
            Error::unavailable(
                "the group was not left in time; what is in flight goes to others when its member expires",
            )
        })
    }
}

impl Drop for KafkaConsumer {
    fn drop(&mut self) {
        self.desk.close();
    }
}
