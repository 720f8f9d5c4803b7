//! What a consumer has in hand, and the task that keeps it there: locks are renewed while their deliveries
//! live, and tokens while the connection does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fe2o3_amqp::types::primitives::{Array, OrderedMap, Uuid, Value};
use punctual::jiff::Timestamp;
use punctual::{Result, clock};

use crate::dialogue::Dialogue;
use crate::line::{Settings, Tokens};

/// How often the holds are looked at; the shortest lock that can be set is five seconds.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long a lock is taken to last when the broker does not say.
const LOCK_LENGTH: Duration = Duration::from_secs(30);
/// The most locks in one question.
const ASK_MAX: usize = 100;

/// The right to one delivery.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    pub(crate) lock: [u8; 16],
    pub(crate) until: Timestamp,
    renew_at: Timestamp,
}

/// All deliveries that are unsettled, by their number on the link.
#[derive(Debug, Default)]
pub(crate) struct Holds(Mutex<HashMap<u32, Option<Hold>>>);

impl Holds {
    fn with<T>(&self, act: impl FnOnce(&mut HashMap<u32, Option<Hold>>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn len(&self) -> usize {
        self.with(|holds| holds.len())
    }

    /// Takes a delivery in hand.
    pub(crate) fn take(
        &self,
        delivery: u32,
        lock: Option<[u8; 16]>,
        until: Option<Timestamp>,
        now: Timestamp,
    ) {
        let until = until.unwrap_or_else(|| clock::add(now, LOCK_LENGTH));
        let hold = lock.map(|lock| Hold { lock, until, renew_at: halfway(now, until) });
        self.with(|holds| holds.insert(delivery, hold));
    }

    /// Lets a delivery go; false when it was not in hand.
    pub(crate) fn let_go(&self, delivery: u32) -> bool {
        self.with(|holds| holds.remove(&delivery).is_some())
    }

    pub(crate) fn clear(&self) {
        self.with(HashMap::clear);
    }

    /// Some whose locks should be renewed.
    fn due(&self, now: Timestamp) -> Vec<(u32, Hold)> {
        self.with(|holds| {
            let due = holds.iter().filter_map(|(delivery, hold)| Some((*delivery, (*hold)?)));
            due.filter(|(_, hold)| hold.renew_at <= now).take(ASK_MAX).collect()
        })
    }

    fn renewed(&self, delivery: u32, now: Timestamp, length: Duration) {
        let until = clock::add(now, length);
        self.with(|holds| {
            if let Some(Some(hold)) = holds.get_mut(&delivery) {
                hold.until = until;
                hold.renew_at = halfway(now, until);
            }
        });
    }

    /// Its lock is somebody else's; it stays in hand until it is settled, and settling it does nothing.
    fn lost(&self, delivery: u32) {
        self.with(|holds| {
            if let Some(hold) = holds.get_mut(&delivery) {
                *hold = None;
            }
        });
    }
}

fn halfway(now: Timestamp, until: Timestamp) -> Timestamp {
    clock::add(now, clock::between(now, until) / 2)
}

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
    /// Goes on until it is aborted, or until the connection is gone.
    pub(crate) async fn run(mut self) {
        let clock = self.settings.clock.clone();
        loop {
            clock.sleep_until(clock::add(clock.now(), LOOK_EVERY)).await;
            if let Err(error) = self.look(clock.now()).await {
                tracing::warn!(source = self.source, %error, "locks or tokens could not be renewed");
                if error.is_temporary() {
                    continue;
                }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_lock_is_renewed_when_half_of_it_is_over() {
        let holds = Holds::default();
        holds.take(1, Some([7; 16]), Some(at(30)), at(0));
        holds.take(2, None, Some(at(30)), at(0));
        assert!(holds.due(at(14)).is_empty());
        assert_eq!(holds.due(at(15)).len(), 1, "one without a lock cannot be renewed");
        holds.renewed(1, at(15), Duration::from_secs(30));
        assert!(holds.due(at(29)).is_empty());
        assert_eq!(holds.due(at(30)).len(), 1);
        holds.lost(1);
        assert!(holds.due(at(99)).is_empty());
        assert_eq!(holds.len(), 2);
        assert!(holds.let_go(1) && !holds.let_go(1));
    }
}
