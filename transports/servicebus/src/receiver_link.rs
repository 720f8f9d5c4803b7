//! Receiver link of a consumer, its connection, and the task that renews its locks and tokens.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fe2o3_amqp::Receiver;
use fe2o3_amqp::types::messaging::Body;
use fe2o3_amqp::types::primitives::Value;
use futures_util::FutureExt as _;
use punctual::backend::transport::renewal::VisibilityRenewal;
use punctual::{Result, clock};

use crate::connection::BrokerConnection;
use crate::management::Management;
use crate::reader::Reader;
use crate::renewal::{CHECK_INTERVAL, LockRenewer};
use crate::request_link::RequestLink;

/// Timeout of closing, which no caller waits for longer.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Receiver link and its lock renewal.
pub(crate) struct ReceiverLink {
    connection: BrokerConnection,
    pub(crate) receiver: Receiver,
    pub(crate) management: Arc<Management>,
    renewal: VisibilityRenewal,
    /// Number of the link, unique within the consumer.
    pub(crate) number: u64,
}

impl ReceiverLink {
    /// Opens a connection and a link for a reader.
    pub(crate) async fn attach(reader: &Reader) -> Result<Self> {
        let (settings, source) = (&reader.context.settings, &reader.source);
        let attaching = async {
            let mut connection = BrokerConnection::open(settings).await?;
            let receiver = connection.receiver(source).await?;
            let node = format!("{source}/$management");
            connection.tokens()?.put(&node).await?;
            let request_link =
                RequestLink::attach(&node, &mut connection.session, settings.error_context(&node))
                    .await?;
            Ok((connection, receiver, request_link))
        };
        let (mut connection, mut receiver, request_link) =
            settings.within_timeout(Box::pin(attaching)).await?;
        // The broker attaches first and reports an error afterwards; it has had the time to. The link has no
        // credit yet, so no delivery can have arrived.
        if let Some(Err(error)) = receiver.recv::<Body<Value>>().now_or_never() {
            return Err(settings.error_context(source).map_error(error));
        }
        let tokens = connection.take_tokens()?;
        let management = Arc::new(Management {
            settings: settings.clone(),
            source: source.clone(),
            request_link: request_link.into(),
        });
        let renewer = LockRenewer {
            settings: settings.clone(),
            in_flight: reader.in_flight.clone(),
            tokens,
            management: management.clone(),
            lock_duration: reader.lock_duration.clone(),
        };
        let number = reader.link_number.fetch_add(1, Ordering::Relaxed) + 1;
        let clock = settings.clock.clone();
        let renewal = VisibilityRenewal::start(&reader.in_flight.0, clock, CHECK_INTERVAL, renewer);
        Ok(Self { connection, receiver, management, renewal, number })
    }

    /// Closes link and connection, for at most `CLOSE_TIMEOUT`.
    pub(crate) async fn close(self) {
        drop(self.renewal);
        let clock = self.management.settings.clock.clone();
        let until = clock::add(clock.now(), CLOSE_TIMEOUT);
        let _ = clock::within(&*clock, until, self.connection.close()).await;
    }
}
