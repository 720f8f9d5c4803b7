//! Consumer of one subscription: returns the records that its reader has fetched.

use std::sync::Arc;
use std::thread;

use async_trait::async_trait;
use punctual::backend::transport::{Consumer, Delivery, Receipt};
use punctual::clock::{add, within};
use punctual::jiff::Timestamp;
use punctual::{Clock, Error, Result};

use crate::assignment::FetchedRecord;
use crate::in_flight::{InFlight, TakeResult};
use crate::reader::Reader;
use crate::receipt::{ConsumerContext, KafkaReceipt};

/// Receives deliveries of one topic for one group.
pub(crate) struct KafkaConsumer {
    in_flight: Arc<InFlight>,
    context: Arc<ConsumerContext>,
    clock: Arc<dyn Clock>,
}

impl KafkaConsumer {
    /// Joins the group and starts the reader thread.
    pub(crate) async fn start(reader: Reader, context: ConsumerContext) -> Result<Self> {
        let in_flight = Arc::clone(&reader.in_flight);
        let clock = Arc::clone(&reader.settings.clock);
        let join_timeout = reader.settings.join_timeout;
        let client = reader.join()?;
        let name = format!("kafka {}", reader.names.group);
        // The in-flight set owns the thread: closing it ends the thread.
        let thread = thread::Builder::new().name(name).spawn(move || reader.run(client));
        thread.map_err(|error| {
            Error::unavailable(format!("the reader thread of Kafka cannot be started: {error}"))
                .during("subscribe")
        })?;
        let consumer = Self { in_flight, context: Arc::new(context), clock };
        if !join_timeout.is_zero() {
            let until = add(consumer.clock.now(), join_timeout);
            // After the timeout it continues to join in the background.
            let _ = within(&*consumer.clock, until, consumer.in_flight.joined()).await;
        }
        Ok(consumer)
    }

    fn delivery(&self, record: FetchedRecord) -> Delivery {
        Delivery {
            message: Arc::clone(&record.message),
            attempt: record.attempt,
            poison: record.poison.as_deref().map(str::to_owned),
            receipt: Receipt::Broker(Box::new(KafkaReceipt::new(
                Arc::clone(&self.context),
                record,
            ))),
        }
    }
}

#[async_trait]
impl Consumer for KafkaConsumer {
    async fn receive(&mut self, limit: usize) -> Result<Vec<Delivery>> {
        loop {
            match self.in_flight.take(limit.max(1)) {
                TakeResult::Records(records) => {
                    return Ok(records.into_iter().map(|record| self.delivery(record)).collect());
                }
                TakeResult::Failed(error) => return Err(error),
                TakeResult::Closed => {
                    return Err(Error::conflict("the consumer is closed; subscribe again"));
                }
                TakeResult::Empty => self.in_flight.changed().await,
            }
        }
    }

    async fn close(&mut self, until: Timestamp) -> Result<()> {
        self.in_flight.close();
        let ended = async {
            while !self.in_flight.is_closed() {
                self.in_flight.changed().await;
            }
        };
        within(&*self.clock, until, ended).await.ok_or_else(|| {
            Error::unavailable(
                "the group was not left before the deadline; its deliveries in flight go to other \
                 consumers when the session of this one expires",
            )
        })
    }
}

impl Drop for KafkaConsumer {
    fn drop(&mut self) {
        self.in_flight.close();
    }
}
