//! Connection to the broker: opened on first use, dropped when it is lost, opened again by the next call.
//! It retries only what fails while another process declares the same queue; else the engine does, with its back-off.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lapin::{Channel, Connection, ConnectionProperties};
use punctual::clock::add;
use punctual::{Error, Result};

use crate::settings::Settings;

/// Attempts to declare a queue and to use it at first, and the pause between them.
const DECLARING_TRIES: u32 = 4;
const DECLARING_PAUSE: Duration = Duration::from_millis(100);

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

    /// Runs work with a queue that another process may be declaring at this moment: a few times, as long as it fails
    /// temporarily and the timeout is not over.
    pub(crate) async fn retry_while_declared<T, F: Future<Output = Result<T>>>(
        &self,
        work: impl Fn() -> F,
    ) -> Result<T> {
        let Settings { clock, timeout, .. } = &*self.settings;
        let until = add(clock.now(), *timeout);
        for _ in 1..DECLARING_TRIES {
            let result = work().await;
            if !result.as_ref().is_err_and(Error::is_temporary) || clock.now() >= until {
                return result;
            }
            clock.sleep_until(add(clock.now(), DECLARING_PAUSE)).await;
        }
        work().await
    }

    fn open_connection(&self) -> Option<Arc<Connection>> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        connection.as_ref().filter(|connection| connection.status().connected()).cloned()
    }
}
