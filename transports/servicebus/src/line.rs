//! A connection and a session on it, and the tokens that open entities to them. When it is lost, whoever
//! uses it opens another.

use std::sync::Arc;
use std::time::Duration;

use fe2o3_amqp::connection::ConnectionHandle;
use fe2o3_amqp::link::receiver::CreditMode;
use fe2o3_amqp::sasl_profile::SaslProfile;
use fe2o3_amqp::session::SessionHandle;
use fe2o3_amqp::types::definitions::SenderSettleMode;
use fe2o3_amqp::types::primitives::Value;
use fe2o3_amqp::{Connection, Receiver, Sender, Session};
use punctual::clock::{self, Clock};
use punctual::jiff::Timestamp;
use punctual::model::{IdSource as _, Ids, Topic};
use punctual::wire::Wrapping;
use punctual::{Error, Result};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::address::Address;
use crate::dialogue::Dialogue;
use crate::entity::{self, Entities};
use crate::fault::Asked;
use crate::hold::Losses;
use crate::token;

/// After so long without a frame the connection is taken to be dead; both sides send empty ones.
const SILENCE_MAX_MS: u32 = 60_000;
const FRAME_MAX: u32 = 64 * 1024;
const CBS: &str = "$cbs";

/// What was set, for everything that the transport opens.
pub(crate) struct Settings {
    pub(crate) address: Address,
    pub(crate) place: String,
    pub(crate) tls: Option<TlsConnector>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Ids,
    pub(crate) prefix: String,
    pub(crate) entities: Entities,
    pub(crate) timeout: Duration,
    pub(crate) token_length: Duration,
    pub(crate) payload_max: usize,
    pub(crate) deliveries_max: u32,
    pub(crate) wrapping: Wrapping,
    pub(crate) losses: Losses,
}

impl Settings {
    /// The words around an error about an entity.
    pub(crate) fn about<'a>(&'a self, entity: &'a str) -> Asked<'a> {
        Asked { place: &self.place, entity }
    }

    /// The name of a topic's entity.
    pub(crate) fn entity(&self, topic: &Topic) -> Result<String> {
        let name = entity::entity(&self.prefix, topic)?;
        match &self.address.entity {
            Some(only) if *only != name => Err(Error::invalid(format!(
                "the connection string is for {only:?} alone and the topic is {name:?}; use one without EntityPath"
            ))),
            _ => Ok(name),
        }
    }

    /// Work with the broker, which must come to an end.
    pub(crate) async fn in_time<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let until = clock::add(self.clock.now(), self.timeout);
        let done = clock::within(&*self.clock, until, work).await;
        done.unwrap_or_else(|| Err(self.about("").silent()))
    }
}

/// A connection with one session.
pub(crate) struct Line {
    // In this order: the session ends before its connection.
    pub(crate) session: SessionHandle<()>,
    tokens: Option<Tokens>,
    connection: ConnectionHandle<()>,
    settings: Arc<Settings>,
}

impl Line {
    /// Connects; the caller bounds it.
    pub(crate) async fn open(settings: &Arc<Settings>) -> Result<Self> {
        let asked = settings.about("");
        let id = settings.ids.next(settings.clock.now());
        let host = &settings.address.host;
        let builder = Connection::builder()
            .container_id(format!("punctual-{id}"))
            .hostname(Some(host.as_str()))
            .max_frame_size(FRAME_MAX)
            .idle_time_out(SILENCE_MAX_MS)
            .sasl_profile(SaslProfile::Anonymous);
        let unreachable = |error: std::io::Error| asked.unopened(error.into());
        let stream = TcpStream::connect((host.as_str(), settings.address.port));
        let stream = stream.await.map_err(unreachable)?;
        stream.set_nodelay(true).map_err(unreachable)?;
        let opened = match &settings.tls {
            None => builder.open_with_stream(stream).await,
            Some(tls) => {
                let name = ServerName::try_from(host.clone()).map_err(|_| {
                    Error::invalid(format!("the host {host:?} cannot have a certificate"))
                })?;
                let stream = tls.connect(name, stream).await.map_err(unreachable)?;
                builder.open_with_stream(stream).await
            }
        };
        let mut connection = opened.map_err(|error| asked.unopened(error))?;
        let begun = Session::begin(&mut connection).await;
        let mut session = begun.map_err(|error| asked.failed(error))?;
        let dialogue = Dialogue::with(CBS, &mut session, settings.about(CBS)).await?;
        let tokens = Some(Tokens::new(dialogue, settings.clone()));
        Ok(Self { session, tokens, connection, settings: settings.clone() })
    }

    /// The tokens that were put on it.
    pub(crate) fn tokens(&mut self) -> Result<&mut Tokens> {
        self.tokens.as_mut().ok_or_else(given_away)
    }

    /// The same, for a task that renews them from now on.
    pub(crate) fn give_tokens(&mut self) -> Result<Tokens> {
        self.tokens.take().ok_or_else(given_away)
    }

    /// A link to send by.
    pub(crate) async fn sender(&mut self, entity: &str) -> Result<Sender> {
        self.tokens()?.put(entity).await?;
        let settings = self.settings.clone();
        let name = format!("punctual-{}", settings.ids.next(settings.clock.now()));
        let attached = Sender::builder()
            .name(name)
            .target(entity)
            .sender_settle_mode(SenderSettleMode::Unsettled)
            .attach(&mut self.session)
            .await;
        attached.map_err(|error| settings.about(entity).failed(error))
    }

    /// A link to receive by, which takes nothing until it is given credit.
    pub(crate) async fn receiver(&mut self, source: &str) -> Result<Receiver> {
        self.tokens()?.put(source).await?;
        let settings = self.settings.clone();
        let name = format!("punctual-{}", settings.ids.next(settings.clock.now()));
        let attached = Receiver::builder()
            .name(name)
            .source(source)
            .sender_settle_mode(SenderSettleMode::Unsettled)
            .credit_mode(CreditMode::Manual)
            .attach(&mut self.session)
            .await;
        attached.map_err(|error| settings.about(source).failed(error))
    }

    /// Whether the connection or the session has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.connection.is_closed() || self.session.is_ended()
    }

    /// Ends it as one should; the caller bounds it.
    pub(crate) async fn close(mut self) {
        // It is over either way.
        let _ = self.session.end().await;
        let _ = self.connection.close().await;
    }
}

fn given_away() -> Error {
    Error::internal("somebody else has the tokens of this connection")
}

/// The tokens that were put on a connection.
pub(crate) struct Tokens {
    dialogue: Dialogue,
    settings: Arc<Settings>,
    entities: Vec<String>,
    renew_at: Timestamp,
}

impl Tokens {
    fn new(dialogue: Dialogue, settings: Arc<Settings>) -> Self {
        Self { dialogue, settings, entities: Vec::new(), renew_at: Timestamp::MAX }
    }

    /// When the first of them should be renewed.
    pub(crate) fn renew_at(&self) -> Timestamp {
        self.renew_at
    }

    /// Opens an entity to the connection.
    pub(crate) async fn put(&mut self, entity: &str) -> Result<()> {
        let settings = self.settings.clone();
        let now = settings.clock.now();
        let resource = format!("sb://{}/{entity}", settings.address.host);
        let until = clock::add(now, settings.token_length);
        let token = token::signature(&settings.address.credential, &resource, until);
        let about = vec![
            ("operation", "put-token".to_owned()),
            ("type", "servicebus.windows.net:sastoken".to_owned()),
            ("name", resource),
        ];
        let asked = settings.about(entity);
        let answer = self.dialogue.ask(about, Value::String(token), asked).await?;
        if !answer.is_yes() {
            return Err(asked.answered(answer.status, &answer.why));
        }
        if !self.entities.iter().any(|known| known == entity) {
            self.entities.push(entity.to_owned());
        }
        self.renew_at = self.renew_at.min(clock::add(now, settings.token_length * 3 / 4));
        Ok(())
    }

    /// Puts all of them anew.
    pub(crate) async fn renew(&mut self) -> Result<()> {
        self.renew_at = Timestamp::MAX;
        for entity in std::mem::take(&mut self.entities) {
            self.put(&entity).await?;
        }
        Ok(())
    }
}
