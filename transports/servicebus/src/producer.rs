//! Producer: sends a whole batch before it waits for the first outcome, and returns when the broker has accepted
//! every message. A message that cannot be sent is refused before any is sent.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fe2o3_amqp::link::delivery::DeliveryFut;
use fe2o3_amqp::link::{ErrorRecovery, LinkStateError, SendError};
use fe2o3_amqp::types::messaging::{Data, Outcome};
use fe2o3_amqp::{Sendable, Sender};
use futures_util::future::join_all;
use punctual::backend::transport::OutgoingMessage;
use punctual::backend::wire::Wrapping;
use punctual::clock;
use punctual::jiff::Timestamp;
use punctual::model::IdSource as _;
use punctual::{Error, Result};
use tokio::sync::Mutex;

use crate::connection::BrokerConnection;
use crate::settings::Settings;
use crate::wire::{ATTRIBUTE_PREFIX, encode};

/// Most sender links that are kept open.
const SENDERS_MAX: usize = 512;
/// Interval at which a lost connection is noticed.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

type PendingOutcome = DeliveryFut<std::result::Result<Outcome, SendError>>;

/// Sends messages to their entities, on a connection that is opened again when it is lost.
pub(crate) struct Producer {
    settings: Arc<Settings>,
    state: Mutex<ProducerState>,
}

/// Present connection and its sender links.
#[derive(Default)]
struct ProducerState {
    /// Number of the connection, so that a late error of an old connection does not close a new one.
    number: u64,
    connection: Option<BrokerConnection>,
    senders: HashMap<String, Arc<Mutex<Sender>>>,
}

/// Sender link and the number of its connection.
struct SenderLink {
    sender: Arc<Mutex<Sender>>,
    number: u64,
}

/// Message and its entity.
struct Publication {
    entity: String,
    message: Sendable<Data>,
}

/// Error of sending, and whether nothing had been sent.
struct SendFailure {
    error: Error,
    is_unsent: bool,
}

impl Producer {
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        Self { settings, state: Mutex::default() }
    }

    /// Connects and authenticates.
    pub(crate) async fn open(&self) -> Result<()> {
        let opening = async {
            let mut state = self.state.lock().await;
            let entity = self.settings.address.entity.clone().unwrap_or_default();
            Box::pin(self.connection(&mut state).await?.tokens()?.put(&entity)).await
        };
        self.settings.within_timeout(opening).await.map_err(|error| error.during("connect"))
    }

    pub(crate) async fn publish(&self, batch: &[OutgoingMessage], now: Timestamp) -> Result<()> {
        self.deliver(self.publications(batch, &self.settings.wrapping, now)?).await
    }

    /// Sends a copy of a requeued message in Punctual's own envelope: only its own group reads it.
    pub(crate) async fn requeue(&self, copy: OutgoingMessage, now: Timestamp) -> Result<()> {
        self.deliver(self.publications(&[copy], &Wrapping::default(), now)?).await
    }

    async fn deliver(&self, publications: Vec<Publication>) -> Result<()> {
        let settings = &self.settings;
        let until = clock::add(settings.clock.now(), settings.timeout);
        let sent =
            clock::within(&*settings.clock, until, self.send_with_retry(&publications)).await;
        let sent = if let Some(sent) = sent {
            sent
        } else {
            // A broker that does not respond now would not respond the next time either.
            *self.state.lock().await = ProducerState::default();
            Err(settings.error_context("").timed_out())
        };
        sent.map_err(|error| error.during("publish"))
    }

    fn publications(
        &self,
        batch: &[OutgoingMessage],
        wrapping: &Wrapping,
        now: Timestamp,
    ) -> Result<Vec<Publication>> {
        let settings = &self.settings;
        batch.iter().try_for_each(|outgoing| outgoing.message.body.check(settings.payload_max))?;
        let publication = |outgoing: &OutgoingMessage| {
            let message = &outgoing.message;
            let due_at = Some(outgoing.delay).filter(|delay| !delay.is_zero());
            let due_at = due_at.map(|delay| clock::add(now, delay));
            let id = format!("{}@{}", message.id, settings.ids.next(now));
            let entity = settings.entity(&message.topic)?;
            let message = encode(wrapping.wire(outgoing, ATTRIBUTE_PREFIX)?, id, due_at)?;
            Ok(Publication { entity, message: message.into() })
        };
        batch.iter().map(publication).collect()
    }

    /// Sends; retries once when the connection turned out to be lost before anything was sent.
    async fn send_with_retry(&self, publications: &[Publication]) -> Result<()> {
        match self.send(publications).await {
            Err(SendFailure { error, is_unsent: true }) if error.is_temporary() => {
                self.send(publications).await.map_err(|failed| failed.error)
            }
            sent => sent.map_err(|failed| failed.error),
        }
    }

    async fn send(&self, publications: &[Publication]) -> std::result::Result<(), SendFailure> {
        let mut outcomes: Vec<PendingOutcome> = Vec::with_capacity(publications.len());
        let mut last = None;
        for run in publications.chunk_by(|one, next| one.entity == next.entity) {
            let entity = &run[0].entity;
            let link = self
                .sender_link(entity)
                .await
                .map_err(|error| SendFailure { error, is_unsent: outcomes.is_empty() })?;
            let mut sender = link.sender.lock().await;
            for publication in run {
                match sender.send_batchable_ref(&publication.message).await {
                    Ok(outcome) => outcomes.push(outcome),
                    Err(error) => {
                        drop(sender);
                        let is_unsent = outcomes.is_empty();
                        return Err(SendFailure {
                            error: self.handle_send_error(&link, entity, error).await,
                            is_unsent,
                        });
                    }
                }
            }
            drop(sender);
            last = Some((link, entity));
        }
        let Some((link, entity)) = last else { return Ok(()) };
        let Some(outcomes) = self.wait_for_outcomes(&link, outcomes).await else {
            let error =
                self.settings.error_context(entity).map_error(LinkStateError::RemoteDetached);
            return Err(SendFailure { error, is_unsent: false });
        };
        for outcome in outcomes {
            let error = match outcome {
                Ok(Outcome::Accepted(_)) => continue,
                Ok(Outcome::Rejected(rejected)) => match rejected.error {
                    Some(broker_error) => {
                        self.settings.error_context(entity).map_broker_error(&broker_error)
                    }
                    None => Error::unavailable(format!(
                        "Service Bus did not accept a message to {entity:?} and gave no reason; try again"
                    )),
                },
                Ok(_) => Error::unavailable(format!(
                    "Service Bus returned a message to {entity:?} without accepting it; try again"
                )),
                Err(error) => self.handle_send_error(&link, entity, error).await,
            };
            return Err(SendFailure { error, is_unsent: false });
        }
        Ok(())
    }

    /// Waits for the outcome of every message; returns `None` when the connection is lost. The client never
    /// completes outcomes of a lost connection, so the connection is checked meanwhile.
    async fn wait_for_outcomes(
        &self,
        link: &SenderLink,
        outcomes: Vec<PendingOutcome>,
    ) -> Option<Vec<std::result::Result<Outcome, SendError>>> {
        let clock = &*self.settings.clock;
        let outcomes = join_all(outcomes);
        tokio::pin!(outcomes);
        loop {
            let next = clock::add(clock.now(), CHECK_INTERVAL);
            if let Some(outcomes) = clock::within(clock, next, &mut outcomes).await {
                return Some(outcomes);
            }
            let state = self.state.lock().await;
            if state.number != link.number
                || state.connection.as_ref().is_none_or(BrokerConnection::is_closed)
            {
                return None;
            }
        }
    }

    /// Returns a sender link to an entity; attaches one if there is none.
    async fn sender_link(&self, entity: &str) -> Result<SenderLink> {
        let mut state = self.state.lock().await;
        self.connection(&mut state).await?;
        let ProducerState { number, connection: Some(connection), senders } = &mut *state else {
            return Err(Error::internal("the connection was opened and is missing"));
        };
        if self.settings.clock.now() >= connection.tokens()?.renew_at() {
            // While nothing was sent the broker may have closed links whose tokens expired.
            senders.clear();
            Box::pin(connection.tokens()?.renew()).await?;
        }
        if let Some(sender) = senders.get(entity) {
            return Ok(SenderLink { sender: sender.clone(), number: *number });
        }
        if senders.len() >= SENDERS_MAX {
            senders.clear();
        }
        let sender = Arc::new(Mutex::new(Box::pin(connection.sender(entity)).await?));
        senders.insert(entity.to_owned(), sender.clone());
        Ok(SenderLink { sender, number: *number })
    }

    async fn connection<'a>(
        &self,
        state: &'a mut ProducerState,
    ) -> Result<&'a mut BrokerConnection> {
        if state.connection.as_ref().is_some_and(BrokerConnection::is_closed) {
            state.connection = None;
        }
        if state.connection.is_none() {
            state.senders.clear();
            state.number += 1;
            state.connection = Some(Box::pin(BrokerConnection::open(&self.settings)).await?);
        }
        state
            .connection
            .as_mut()
            .ok_or_else(|| Error::internal("the connection was opened and is missing"))
    }

    /// Maps an error of sending, and drops the link or connection that is of no further use.
    async fn handle_send_error(&self, link: &SenderLink, entity: &str, error: SendError) -> Error {
        let recovery = error.recovery();
        let mut state = self.state.lock().await;
        let is_present = state.number == link.number;
        match recovery {
            ErrorRecovery::UseLink => {}
            ErrorRecovery::NewLink | ErrorRecovery::ReattachLink if is_present => {
                state.senders.remove(entity);
            }
            _ if is_present => {
                state.connection = None;
                state.senders.clear();
            }
            _ => {}
        }
        drop(state);
        if let SendError::MessageSizeExceeded(size) = &error {
            return Error::invalid(format!(
                "a message of {} bytes with its headers is too large for {entity:?}, which accepts {}; store its body elsewhere and send a reference",
                size.size, size.max_size
            ));
        }
        self.settings.error_context(entity).map_error(error)
    }
}
