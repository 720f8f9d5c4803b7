//! The task that keeps what a consumer has in hand: locks are renewed while their deliveries live, and
//! tokens while the connection does.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punctual::jiff::Timestamp;
use punctual::{Result, clock};

use crate::hold::{Hold, Holds, Number};
use crate::line::{Settings, Tokens};
use crate::manage::Management;

/// How often the holds are looked at; the shortest lock that can be set is five seconds.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Renews locks and tokens of one connection.
pub(crate) struct Keeper {
    pub(crate) settings: Arc<Settings>,
    pub(crate) holds: Arc<Holds>,
    pub(crate) tokens: Tokens,
    pub(crate) management: Arc<Management>,
    /// How long the broker's locks last, as far as it has told.
    pub(crate) lock_length: Arc<Mutex<Duration>>,
}

impl Keeper {
    /// Goes on until it is aborted.
    pub(crate) async fn run(mut self) {
        let clock = self.settings.clock.clone();
        loop {
            clock.sleep_until(clock::add(clock.now(), LOOK_EVERY)).await;
            if let Err(error) = self.look(clock.now()).await {
                tracing::warn!(source = self.management.source, %error, "locks or tokens could not be renewed");
            }
        }
    }

    async fn look(&mut self, now: Timestamp) -> Result<()> {
        if now >= self.tokens.renew_at() {
            let settings = self.settings.clone();
            settings.in_time(self.tokens.renew()).await?;
        }
        let due = self.holds.due(now);
        if due.is_empty() {
            return Ok(());
        }
        if self.renew(&due, now).await? {
            return Ok(());
        }
        // One of them is lost, and the broker does not say which.
        for one in due {
            if !self.renew(&[one], now).await? {
                let source = &self.management.source;
                tracing::warn!(source, "a lock has run out before it was renewed");
                self.holds.lost(one.0);
            }
        }
        Ok(())
    }

    async fn renew(&self, due: &[(Number, Hold)], now: Timestamp) -> Result<bool> {
        let is_renewed = self.management.renew(due.iter().map(|(_, hold)| hold.lock)).await?;
        if is_renewed {
            let length = *self.lock_length.lock().unwrap_or_else(PoisonError::into_inner);
            for (number, _) in due {
                self.holds.renewed(*number, now, length);
            }
        }
        Ok(is_renewed)
    }
}
