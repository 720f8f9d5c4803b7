//! The task that keeps what a consumer has in hand: locks are renewed while their deliveries live, and
//! tokens while the connection does.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fe2o3_amqp::types::primitives::{Array, OrderedMap, Uuid, Value};
use punctual::jiff::Timestamp;
use punctual::{Result, clock};

use crate::dialogue::Dialogue;
use crate::hold::{Hold, Holds};
use crate::line::{Settings, Tokens};

/// How often the holds are looked at; the shortest lock that can be set is five seconds.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Renews locks and tokens of one connection.
pub(crate) struct Keeper {
    pub(crate) settings: Arc<Settings>,
    pub(crate) source: String,
    pub(crate) holds: Arc<Holds>,
    pub(crate) tokens: Tokens,
    pub(crate) management: Dialogue,
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
                tracing::warn!(source = self.source, %error, "locks or tokens could not be renewed");
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
                tracing::warn!(source = self.source, "a lock has run out before it was renewed");
                self.holds.lost(one.0);
            }
        }
        Ok(())
    }

    /// Renews some locks; false when one of them is gone.
    async fn renew(&mut self, due: &[(u32, Hold)], now: Timestamp) -> Result<bool> {
        let locks: Vec<Value> =
            due.iter().map(|(_, hold)| Value::Uuid(Uuid::from(hold.lock))).collect();
        let body = OrderedMap::from_iter([(
            Value::String("lock-tokens".to_owned()),
            Value::Array(Array::from(locks)),
        )]);
        let about = vec![("operation", "com.microsoft:renew-lock".to_owned())];
        let settings = self.settings.clone();
        let asked = settings.about(&self.source);
        let answer = settings.in_time(self.management.ask(about, Value::Map(body), asked)).await?;
        match answer.status {
            404 | 410 => Ok(false),
            _ if answer.is_yes() => {
                let length = *self.lock_length.lock().unwrap_or_else(PoisonError::into_inner);
                due.iter().for_each(|(delivery, _)| self.holds.renewed(*delivery, now, length));
                Ok(true)
            }
            status => Err(asked.answered(status, &answer.why)),
        }
    }
}
