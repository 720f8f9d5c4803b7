//! Reader of a consumer: keeps a connection to its session, passes messages on, announces that the member is online,
//! and adopts the sessions of members that are gone. It ends when the consumer is closed.

use std::sync::Arc;
use std::time::Duration;

use punctual::backend::transport::back_off::BackOff;
use punctual::clock::{Clock, add};
use punctual::jiff::Timestamp;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::adoption::Adopter;
use crate::codec::Publish;
use crate::connection::{Connection, Publishes};
use crate::connector::SessionOptions;
use crate::error::{ConnectionError, map_error};
use crate::in_flight::InFlight;
use crate::membership::{ANNOUNCE_INTERVAL, GONE, HERE, LEFT, Membership, OrphanedSession};
use crate::wire::Publication;

/// Wait before the first attempt to reconnect; it doubles with every further attempt.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(5);

/// Reads for one consumer.
pub(crate) struct Reader {
    pub(crate) in_flight: Arc<InFlight>,
    pub(crate) id: String,
    pub(crate) adopter: Adopter,
    pub(crate) members: Membership,
    pub(crate) prefetch: u16,
    pub(crate) stop: watch::Receiver<bool>,
    pub(crate) adoptions: JoinSet<(OrphanedSession, Result<usize, ConnectionError>)>,
}

/// A connection and the messages received on it.
pub(crate) type ReaderConnection = (Arc<Connection>, Publishes);

enum Event {
    Publish(Option<Publish>),
    AdoptionEnded((OrphanedSession, Result<usize, ConnectionError>)),
    Timer,
    Stop,
}

impl Reader {
    /// Connects, resumes the session, subscribes, and announces the member.
    pub(crate) async fn connect(&self) -> Result<ReaderConnection, ConnectionError> {
        let names = &self.in_flight.names;
        let member = names.member_topic(&self.id);
        let options = SessionOptions {
            client: &self.in_flight.client,
            clean: false,
            session_retention: self.adopter.session_retention,
            receive_max: self.prefetch,
            will: Some((&member, GONE)),
        };
        let (connection, publishes) = Connection::open(&self.adopter.connector, options).await?;
        if !connection.connack.shared_subscriptions {
            return Err(ConnectionError::Unsupported("shared subscriptions"));
        }
        if !connection.connack.retain_available {
            return Err(ConnectionError::Unsupported("retained messages"));
        }
        if connection.connack.qos_max == 0 {
            return Err(ConnectionError::Unsupported("QoS 1"));
        }
        let connection = Arc::new(connection);
        self.in_flight.connected(connection.clone());
        let [shared, own] = &names.filters;
        connection.subscribe(&[(shared, true), (own, true), (&names.members, false)]).await?;
        connection.publish(&[Publication::retained(&member, HERE)]).await?;
        Ok((connection, publishes))
    }

    /// Reads and reconnects until it is stopped.
    pub(crate) async fn run(mut self, first: ReaderConnection) {
        let mut connected = Ok(first);
        let mut back_off = BackOff::new(RETRY_FIRST, RETRY_MAX);
        loop {
            let error = match connected {
                Ok((connection, publishes)) => {
                    back_off.reset();
                    let result = self.serve(&connection, publishes).await;
                    let Err(error) = result else { return self.disconnect(&connection).await };
                    error
                }
                Err(error) => error,
            };
            self.in_flight.disconnected();
            self.in_flight.report_error(&error);
            let retry_at = add(self.clock().now(), back_off.next_wait());
            let mut stop = self.stop.clone();
            let clock = self.clock();
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                () = clock.sleep_until(retry_at) => {}
            }
            connected = tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                connected = self.connect() => connected,
            };
        }
    }

    /// Passes messages on until the connection is lost, or until it is stopped.
    async fn serve(
        &mut self,
        connection: &Connection,
        mut publishes: Publishes,
    ) -> Result<(), ConnectionError> {
        let clock = self.clock();
        let names = self.in_flight.names.clone();
        let mut announce_at = add(clock.now(), ANNOUNCE_INTERVAL);
        loop {
            let check_at = announce_at.min(self.members.next_check_at(clock.now()));
            match self.next(&mut publishes, check_at).await {
                Event::Stop => return Ok(()),
                Event::Publish(None) => return Err(connection.error()),
                Event::Publish(Some(publish)) => {
                    let Some(id) = names.member_of(&publish.topic) else {
                        self.in_flight.take(publish, clock.now());
                        continue;
                    };
                    if self.members.update(id, &publish.payload, clock.now()) {
                        connection.announce(&publish.topic, HERE).await?;
                    }
                }
                Event::AdoptionEnded((orphan, adopted)) => self.finish_adoption(&orphan, adopted),
                Event::Timer => {}
            }
            if clock.now() >= announce_at {
                connection.announce(&names.member_topic(&self.id), HERE).await?;
                announce_at = add(clock.now(), ANNOUNCE_INTERVAL);
            }
            self.adopt(clock.now());
        }
    }

    async fn next(&mut self, publishes: &mut Publishes, check_at: Timestamp) -> Event {
        let clock = self.clock();
        let stop = &mut self.stop;
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => Event::Stop,
            publish = publishes.recv() => Event::Publish(publish),
            Some(adopted) = self.adoptions.join_next() => match adopted {
                Ok(adopted) => Event::AdoptionEnded(adopted),
                Err(_) => Event::Timer,
            },
            () = clock.sleep_until(check_at) => Event::Timer,
        }
    }

    /// Starts to adopt a session, one at a time.
    fn adopt(&mut self, now: Timestamp) {
        if !self.adoptions.is_empty() {
            return;
        }
        if let Some(orphan) = self.members.orphan(now) {
            let adopter = self.adopter.clone();
            self.adoptions.spawn(async move {
                let adopted = adopter.adopt(&orphan).await;
                (orphan, adopted)
            });
        }
    }

    fn finish_adoption(
        &mut self,
        orphan: &OrphanedSession,
        adopted: Result<usize, ConnectionError>,
    ) {
        match adopted {
            Ok(count) => {
                self.members.remove(&orphan.id);
                tracing::debug!(member = orphan.id, count, "session of a member adopted");
            }
            Err(error) => {
                self.members.retry_later(&orphan.id, self.clock().now());
                let error = map_error(&error, &self.in_flight.server);
                tracing::debug!(member = orphan.id, %error, "adoption of a session failed, it is retried");
            }
        }
    }

    /// Announces that the session has no owner now, and disconnects. Unsettled messages stay in the session.
    async fn disconnect(&mut self, connection: &Connection) {
        self.adoptions.shutdown().await;
        let member = self.in_flight.names.member_topic(&self.id);
        // No confirmation is awaited: the broker reads the message before DISCONNECT, and without a connection it
        // publishes the will.
        let _ = connection.announce(&member, LEFT).await;
        connection.end().await;
        self.in_flight.disconnected();
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.adopter.connector.clock.clone()
    }
}
