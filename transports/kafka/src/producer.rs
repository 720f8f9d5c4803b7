//! Sending: a whole batch is handed to the client at once and confirmed as one. The client counts the
//! confirmations down, so a message costs neither a task nor a channel of its own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punctual::clock::{add, within};
use punctual::jiff::Timestamp;
use punctual::wire::Wire;
use punctual::{Error, Message, Result};
use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseRecord, Producer as _, ProducerContext, ThreadedProducer};
use tokio::sync::Notify;

use crate::fault;
use crate::settings::Settings;
use crate::trouble::Trouble;
use crate::wire;

/// How long to rest when the client's own queue is full.
const FULL_REST: Duration = Duration::from_millis(5);
/// How much longer than the client we wait for it: its own timer decides, ours only bounds it.
const MARGIN: Duration = Duration::from_secs(5);

pub(crate) type Client = ThreadedProducer<Reports>;

/// Sends records and waits until the broker has them.
pub(crate) struct Producer {
    settings: Arc<Settings>,
    trouble: Trouble,
    client: Mutex<Arc<Client>>,
}

/// Where a record goes, and what is in it.
pub(crate) struct Record<'a> {
    pub(crate) topic: &'a str,
    pub(crate) message: &'a Message,
    pub(crate) wire: &'a Wire,
}

impl Producer {
    pub(crate) fn new(settings: Arc<Settings>) -> Result<Self> {
        let trouble = Trouble::default();
        let client = Mutex::new(Arc::new(client(&settings, &trouble)?));
        Ok(Self { settings, trouble, client })
    }

    /// The client, to ask the cluster something.
    pub(crate) fn client(&self) -> Arc<Client> {
        Arc::clone(&self.client.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Why things failed last.
    pub(crate) fn trouble(&self) -> &Trouble {
        &self.trouble
    }

    /// Sends records in their order; `Ok` when the broker has confirmed all of them.
    pub(crate) async fn send(&self, records: &[Record<'_>]) -> Result<()> {
        let client = self.client();
        let batch = Arc::new(Batch::default());
        let clock = &*self.settings.clock;
        let until = add(clock.now(), self.settings.timeout);
        for record in records {
            self.enqueue(&client, record, &batch, until).await?;
        }
        if within(clock, add(until, MARGIN), batch.confirmed()).await.is_none() {
            return Err(self.fault(RDKafkaErrorCode::MessageTimedOut));
        }
        match batch.failure() {
            None => Ok(()),
            Some(code) => Err(self.failed(code, &client)),
        }
    }

    /// Hands a record to the client; waits for room until then.
    async fn enqueue(
        &self,
        client: &Client,
        record: &Record<'_>,
        batch: &Arc<Batch>,
        until: Timestamp,
    ) -> Result<()> {
        let clock = &*self.settings.clock;
        loop {
            let Err(error) = hand_over(client, record, batch) else { return Ok(()) };
            let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail);
            if code == RDKafkaErrorCode::QueueFull && clock.now() < until {
                clock.sleep_until(add(clock.now(), FULL_REST)).await;
                continue;
            }
            if code == RDKafkaErrorCode::MessageSizeTooLarge {
                return Err(too_large(record, self.settings.payload_max));
            }
            return Err(self.failed(code, client));
        }
    }

    /// A client that has lost the thread of its numbering sends nothing ever again: the next call gets a
    /// new one.
    fn failed(&self, code: RDKafkaErrorCode, used: &Client) -> Error {
        let is_over = code == RDKafkaErrorCode::Fatal || used.client().fatal_error().is_some();
        if is_over && let Ok(fresh) = client(&self.settings, &self.trouble) {
            let mut current = self.client.lock().unwrap_or_else(PoisonError::into_inner);
            if std::ptr::eq(Arc::as_ptr(&current), used) {
                *current = Arc::new(fresh);
            }
        }
        self.fault(code)
    }

    fn fault(&self, code: RDKafkaErrorCode) -> Error {
        let reason = self.trouble.reason(code);
        fault::from_code(code, "publish", self.settings.at(reason.as_deref()))
    }
}

fn client(settings: &Settings, trouble: &Trouble) -> Result<Client> {
    let made = settings.producer().create_with_context(Reports(trouble.clone()));
    made.map_err(|error| fault::from_kafka(&error, "connect", settings.at(None)))
}

fn hand_over(client: &Client, record: &Record<'_>, batch: &Arc<Batch>) -> Result<(), KafkaError> {
    let to = BaseRecord::with_opaque_to(record.topic, Arc::clone(batch));
    let mut to = to.payload(&record.wire.body[..]).headers(wire::headers(record.wire));
    if let Some(key) = &record.message.key {
        to = to.key(key.as_str().as_bytes());
    }
    batch.expect_one();
    client.send(to).map_err(|(error, _)| {
        batch.report(None);
        error
    })
}

fn too_large(record: &Record<'_>, limit: usize) -> Error {
    let id = record.message.id;
    let headers: usize =
        record.wire.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    Error::invalid(format!(
        "message {id} has a body of {} bytes and headers of {headers} bytes; the body may have {limit}, and \
         the whole not much more: send a reference instead, or raise payload_max here and on the broker",
        record.wire.body.len()
    ))
}

/// Records that are confirmed together. It begins with one that stands for the batch itself, so that it is
/// not complete while records are still being added.
pub(crate) struct Batch {
    left: AtomicUsize,
    failure: Mutex<Option<RDKafkaErrorCode>>,
    complete: Notify,
}

impl Default for Batch {
    fn default() -> Self {
        let (failure, complete) = (Mutex::new(None), Notify::new());
        Self { left: AtomicUsize::new(1), failure, complete }
    }
}

impl Batch {
    fn expect_one(&self) {
        self.left.fetch_add(1, Ordering::Relaxed);
    }

    /// One is confirmed, or failed.
    fn report(&self, failure: Option<RDKafkaErrorCode>) {
        if let Some(code) = failure {
            self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(code);
        }
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            // A permit is kept when nobody waits yet.
            self.complete.notify_one();
        }
    }

    /// Waits until every record is confirmed or failed. Called once.
    async fn confirmed(&self) {
        self.report(None);
        self.complete.notified().await;
    }

    fn failure(&self) -> Option<RDKafkaErrorCode> {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hears from the client what became of each record.
pub(crate) struct Reports(Trouble);

impl ClientContext for Reports {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        self.0.log(level, facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.0.error(error, reason);
    }
}

impl ProducerContext for Reports {
    type DeliveryOpaque = Arc<Batch>;

    fn delivery(&self, result: &DeliveryResult<'_>, batch: Arc<Batch>) {
        let failure = result
            .as_ref()
            .err()
            .map(|(error, _)| error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail));
        batch.report(failure);
    }
}
