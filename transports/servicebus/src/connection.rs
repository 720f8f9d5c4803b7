//! Connection to the broker with one session, and the tokens that authorize entities on it. When it is lost, its
//! user opens another.

use std::sync::Arc;

use fe2o3_amqp::connection::ConnectionHandle;
use fe2o3_amqp::link::receiver::CreditMode;
use fe2o3_amqp::sasl_profile::SaslProfile;
use fe2o3_amqp::session::SessionHandle;
use fe2o3_amqp::types::definitions::SenderSettleMode;
use fe2o3_amqp::types::primitives::Value;
use fe2o3_amqp::{Connection, Receiver, Sender, Session};
use punctual::jiff::Timestamp;
use punctual::model::IdSource as _;
use punctual::{Error, Result, clock};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;

use crate::request_link::RequestLink;
use crate::settings::Settings;
use crate::token;

/// Idle timeout of the connection; both sides send empty frames.
const SILENCE_MAX_MS: u32 = 60_000;
const FRAME_MAX: u32 = 64 * 1024;
const CBS: &str = "$cbs";

/// Connection with one session.
pub(crate) struct BrokerConnection {
    // Dropped in this order: the session ends before its connection.
    pub(crate) session: SessionHandle<()>,
    tokens: Option<Tokens>,
    connection: ConnectionHandle<()>,
    settings: Arc<Settings>,
}

impl BrokerConnection {
    /// Connects; the caller sets the timeout.
    pub(crate) async fn open(settings: &Arc<Settings>) -> Result<Self> {
        let context = settings.error_context("");
        let id = settings.ids.next(settings.clock.now());
        let host = &settings.address.host;
        let builder = Connection::builder()
            .container_id(format!("punctual-{id}"))
            .hostname(Some(host.as_str()))
            .max_frame_size(FRAME_MAX)
            .idle_time_out(SILENCE_MAX_MS)
            .sasl_profile(SaslProfile::Anonymous);
        let unreachable = |error: std::io::Error| context.map_open_error(error.into());
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
        let mut connection = opened.map_err(|error| context.map_open_error(error))?;
        let begun = Session::begin(&mut connection).await;
        let mut session = begun.map_err(|error| context.map_error(error))?;
        let request_link =
            RequestLink::attach(CBS, &mut session, settings.error_context(CBS)).await?;
        let tokens = Some(Tokens::new(request_link, settings.clone()));
        Ok(Self { session, tokens, connection, settings: settings.clone() })
    }

    /// Returns the tokens of the connection.
    pub(crate) fn tokens(&mut self) -> Result<&mut Tokens> {
        self.tokens.as_mut().ok_or_else(tokens_taken)
    }

    /// Moves the tokens to a task that renews them from now on.
    pub(crate) fn take_tokens(&mut self) -> Result<Tokens> {
        self.tokens.take().ok_or_else(tokens_taken)
    }

    /// Attaches a link for sending.
    pub(crate) async fn sender(&mut self, entity: &str) -> Result<Sender> {
        self.tokens()?.put(entity).await?;
        let settings = self.settings.clone();
        let name = format!("punctual-{}", settings.ids.next(settings.clock.now()));
        let link = Sender::builder()
            .name(name)
            .target(entity)
            .sender_settle_mode(SenderSettleMode::Unsettled)
            .attach(&mut self.session)
            .await;
        link.map_err(|error| settings.error_context(entity).map_error(error))
    }

    /// Attaches a link for receiving, which receives nothing until it is given credit.
    pub(crate) async fn receiver(&mut self, source: &str) -> Result<Receiver> {
        self.tokens()?.put(source).await?;
        let settings = self.settings.clone();
        let name = format!("punctual-{}", settings.ids.next(settings.clock.now()));
        let link = Receiver::builder()
            .name(name)
            .source(source)
            .sender_settle_mode(SenderSettleMode::Unsettled)
            .credit_mode(CreditMode::Manual)
            .attach(&mut self.session)
            .await;
        link.map_err(|error| settings.error_context(source).map_error(error))
    }

    /// Returns whether the connection or the session has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.connection.is_closed() || self.session.is_ended()
    }

    /// Ends session and connection; the caller sets the timeout.
    pub(crate) async fn close(mut self) {
        // Both are unusable either way.
        let _ = self.session.end().await;
        let _ = self.connection.close().await;
    }
}

fn tokens_taken() -> Error {
    Error::internal("another task owns the tokens of this connection")
}

/// Tokens of a connection.
pub(crate) struct Tokens {
    request_link: RequestLink,
    settings: Arc<Settings>,
    entities: Vec<String>,
    renew_at: Timestamp,
}

impl Tokens {
    fn new(request_link: RequestLink, settings: Arc<Settings>) -> Self {
        Self { request_link, settings, entities: Vec::new(), renew_at: Timestamp::MAX }
    }

    /// Returns when the first token is due for renewal.
    pub(crate) fn renew_at(&self) -> Timestamp {
        self.renew_at
    }

    /// Authorizes an entity on the connection.
    pub(crate) async fn put(&mut self, entity: &str) -> Result<()> {
        let settings = self.settings.clone();
        let now = settings.clock.now();
        let resource = format!("sb://{}/{entity}", settings.address.host);
        let until = clock::add(now, settings.token_ttl);
        let token = token::signature(&settings.address.credential, &resource, until);
        let properties = vec![
            ("operation", "put-token".to_owned()),
            ("type", "servicebus.windows.net:sastoken".to_owned()),
            ("name", resource),
        ];
        let context = settings.error_context(entity);
        let response = self.request_link.request(properties, Value::String(token), context).await?;
        if !response.is_success() {
            return Err(context.map_status(response.status, &response.description));
        }
        if !self.entities.iter().any(|known| known == entity) {
            self.entities.push(entity.to_owned());
        }
        self.renew_at = self.renew_at.min(clock::add(now, settings.token_ttl * 3 / 4));
        Ok(())
    }

    /// Renews all tokens.
    pub(crate) async fn renew(&mut self) -> Result<()> {
        self.renew_at = Timestamp::MAX;
        for entity in std::mem::take(&mut self.entities) {
            self.put(&entity).await?;
        }
        Ok(())
    }
}
