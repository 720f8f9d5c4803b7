//! Producer: passes a whole batch to the client at once and confirms it as one. The client counts the confirmations
//! down, so a message needs neither a task nor a channel of its own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punctual::backend::wire::Wire;
use punctual::clock::{add, within};
use punctual::jiff::Timestamp;
use punctual::{Error, Message, Result};
use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseRecord, Producer as _, ProducerContext, ThreadedProducer};
use tokio::sync::Notify;

use crate::error;
use crate::last_error::LastError;
use crate::settings::Settings;
use crate::wire;

/// Pause before a retry when the client's queue is full.
const QUEUE_FULL_PAUSE: Duration = Duration::from_millis(5);
/// How much longer than the client's own timeout the caller waits: the client decides, this only bounds the wait.
const MARGIN: Duration = Duration::from_secs(5);

pub(crate) type Client = ThreadedProducer<DeliveryReports>;

/// Sends records and waits until the broker has confirmed them.
pub(crate) struct Producer {
    settings: Arc<Settings>,
    last_error: LastError,
    client: Mutex<Arc<Client>>,
}

/// A record to send, with the name of its topic.
pub(crate) struct Record<'a> {
    pub(crate) topic: &'a str,
    pub(crate) message: &'a Message,
    pub(crate) wire: &'a Wire,
}

impl Producer {
    pub(crate) fn new(settings: Arc<Settings>) -> Result<Self> {
        let last_error = LastError::default();
        let client = Mutex::new(Arc::new(client(&settings, &last_error)?));
        Ok(Self { settings, last_error, client })
    }

    /// Returns the client, for metadata requests.
    pub(crate) fn client(&self) -> Arc<Client> {
        Arc::clone(&self.client.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the recorder of the last error.
    pub(crate) fn last_error(&self) -> &LastError {
        &self.last_error
    }

    /// Sends records in order; `Ok` when the broker has confirmed all of them.
    pub(crate) async fn send(&self, records: &[Record<'_>]) -> Result<()> {
        let client = self.client();
        let batch = Arc::new(Batch::default());
        let clock = &*self.settings.clock;
        let until = add(clock.now(), self.settings.timeout);
        for record in records {
            self.enqueue(&client, record, &batch, until).await?;
        }
        if within(clock, add(until, MARGIN), batch.confirmed()).await.is_none() {
            return Err(self.map_code(RDKafkaErrorCode::MessageTimedOut));
        }
        match batch.failure() {
            None => Ok(()),
            Some(code) => Err(self.client_error(code, &client)),
        }
    }

    /// Passes a record to the client; waits for room in its queue until `until`.
    async fn enqueue(
        &self,
        client: &Client,
        record: &Record<'_>,
        batch: &Arc<Batch>,
        until: Timestamp,
    ) -> Result<()> {
        let clock = &*self.settings.clock;
        loop {
            let Err(error) = enqueue_record(client, record, batch) else { return Ok(()) };
            let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail);
            if code == RDKafkaErrorCode::QueueFull && clock.now() < until {
                clock.sleep_until(add(clock.now(), QUEUE_FULL_PAUSE)).await;
                continue;
            }
            if code == RDKafkaErrorCode::MessageSizeTooLarge {
                return Err(too_large(record, self.settings.payload_max));
            }
            return Err(self.client_error(code, client));
        }
    }

    /// Maps an error. After a fatal error of the idempotent producer the client never sends again, so the next call
    /// gets a new one.
    fn client_error(&self, code: RDKafkaErrorCode, used: &Client) -> Error {
        let is_fatal = code == RDKafkaErrorCode::Fatal || used.client().fatal_error().is_some();
        if is_fatal && let Ok(fresh) = client(&self.settings, &self.last_error) {
            let mut current = self.client.lock().unwrap_or_else(PoisonError::into_inner);
            if std::ptr::eq(Arc::as_ptr(&current), used) {
                *current = Arc::new(fresh);
            }
        }
        self.map_code(code)
    }

    fn map_code(&self, code: RDKafkaErrorCode) -> Error {
        let reason = self.last_error.reason(code);
        error::map_code(code, "publish", self.settings.error_context(reason.as_deref()))
    }
}

fn client(settings: &Settings, last_error: &LastError) -> Result<Client> {
    let created = settings.producer().create_with_context(DeliveryReports(last_error.clone()));
    created.map_err(|error| error::map_error(&error, "connect", settings.error_context(None)))
}

fn enqueue_record(
    client: &Client,
    record: &Record<'_>,
    batch: &Arc<Batch>,
) -> Result<(), KafkaError> {
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

/// Records that are confirmed together. The count starts at one for the batch itself, so that it is not complete
/// while records are still being added.
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

    /// Records the confirmation or failure of one record.
    fn report(&self, failure: Option<RDKafkaErrorCode>) {
        if let Some(code) = failure {
            self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(code);
        }
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            // `notify_one` stores a permit if the sender does not wait yet.
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

/// Receives the delivery report of each record from the client.
pub(crate) struct DeliveryReports(LastError);

impl ClientContext for DeliveryReports {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        self.0.log(level, facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.0.error(error, reason);
    }
}

impl ProducerContext for DeliveryReports {
    type DeliveryOpaque = Arc<Batch>;

    fn delivery(&self, result: &DeliveryResult<'_>, batch: Arc<Batch>) {
        let failure = result
            .as_ref()
            .err()
            .map(|(error, _)| error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail));
        batch.report(failure);
    }
}
