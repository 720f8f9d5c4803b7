//! Connection to the broker: opened on first use, dropped when it is lost, opened again by the next call.
//! Nothing here retries; the callers do, with the engine's back-off.

use std::sync::{Arc, Mutex, PoisonError};

use lapin::{Channel, Connection, ConnectionProperties};
use punctual::Result;

use crate::settings::Settings;

/// Connection for one purpose. Publishing and consuming have one each, because a broker that is short of memory
/// stops reading from publishers, and acknowledgements must not wait behind them.
pub(crate) struct BrokerConnection {
    settings: Arc<Settings>,
    purpose: &'static str,
    connection: Mutex<Option<Arc<Connection>>>,
}

impl BrokerConnection {
    pub(crate) fn new(settings: Arc<Settings>, purpose: &'static str) -> Self {
        Self { settings, purpose, connection: Mutex::new(None) }
    }

    /// Opens a channel on the connection.
    pub(crate) async fn channel(&self) -> Result<Channel> {
        let connection = self.open().await?;
        let is_lost = || !connection.status().connected();
        let opening = connection.create_channel();
        self.settings.call_while_connected("opening a channel", is_lost, opening).await
    }

    /// Returns the connection; opens one if there is none.
    pub(crate) async fn open(&self) -> Result<Arc<Connection>> {
        if let Some(connection) = self.open_connection() {
            return Ok(connection);
        }
        let name = format!("punctual {}", self.purpose);
        let properties = ConnectionProperties::default().with_connection_name(name.into());
        let opening = Connection::connect_uri(self.settings.uri.clone(), properties);
        let opened = Arc::new(self.settings.call("connecting", opening).await?);
        // Another caller may have connected meanwhile; one connection is enough.
        let existing = self.open_connection();
        let connection = existing.unwrap_or(opened);
        *self.connection.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection.clone());
        Ok(connection)
    }

    fn open_connection(&self) -> Option<Arc<Connection>> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        connection.as_ref().filter(|connection| connection.status().connected()).cloned()
    }
}
