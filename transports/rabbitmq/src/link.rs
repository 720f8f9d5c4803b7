//! A connection that comes back: opened when it is needed, forgotten when it is gone, opened again by the
//! next who needs it. Nothing here retries; whoever called does, with the rhythm of the engine.

use std::sync::{Arc, Mutex, PoisonError};

use lapin::{Channel, Connection, ConnectionProperties};
use punctual::Result;

use crate::settings::Settings;

/// A connection for one purpose. Publishing and consuming have one each, because a broker short of memory
/// stops reading from those who publish, and acknowledgements must not wait behind them.
pub(crate) struct Link {
    settings: Arc<Settings>,
    purpose: &'static str,
    connection: Mutex<Option<Arc<Connection>>>,
}

impl Link {
    pub(crate) fn new(settings: Arc<Settings>, purpose: &'static str) -> Self {
        Self { settings, purpose, connection: Mutex::new(None) }
    }

    /// A new channel on the connection.
    pub(crate) async fn channel(&self) -> Result<Channel> {
        let connection = self.connection().await?;
        let is_lost = || !connection.status().connected();
        let opening = connection.create_channel();
        self.settings.talk_until_lost("opening a channel", is_lost, opening).await
    }

    /// The connection, opened if there is none.
    pub(crate) async fn connection(&self) -> Result<Arc<Connection>> {
        if let Some(connection) = self.alive() {
            return Ok(connection);
        }
        let name = format!("punctual {}", self.purpose);
        let properties = ConnectionProperties::default().with_connection_name(name.into());
        let opening = Connection::connect_uri(self.settings.uri.clone(), properties);
        let opened = Arc::new(self.settings.talk("connecting", opening).await?);
        // Somebody else may have been faster; one connection is enough.
        let faster = self.alive();
        let connection = faster.unwrap_or(opened);
        *self.connection.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection.clone());
        Ok(connection)
    }

    fn alive(&self) -> Option<Arc<Connection>> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        connection.as_ref().filter(|connection| connection.status().connected()).cloned()
    }
}
