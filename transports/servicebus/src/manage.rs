//! The management node of a queue or subscription: locks are renewed there, and deliveries settled whose
//! link is gone while their lock is still good.

use std::sync::Arc;

use fe2o3_amqp::types::definitions::Fields;
use fe2o3_amqp::types::primitives::{Array, OrderedMap, Uuid, Value};
use punctual::Result;
use tokio::sync::Mutex;

use crate::dialogue::Dialogue;
use crate::line::Settings;
use crate::receipt::Fate;

/// The right to one delivery, as the broker knows it.
pub(crate) type Lock = [u8; 16];

/// Questions to one management node.
pub(crate) struct Management {
    pub(crate) settings: Arc<Settings>,
    pub(crate) source: String,
    pub(crate) dialogue: Mutex<Dialogue>,
}

impl Management {
    /// Renews some locks; false when one of them is gone.
    pub(crate) async fn renew(&self, locks: impl Iterator<Item = Lock>) -> Result<bool> {
        let body = vec![("lock-tokens", tokens(locks))];
        self.ask("com.microsoft:renew-lock", body).await
    }

    /// Settles a delivery by its lock; false when that is gone.
    pub(crate) async fn settle(&self, lock: Lock, fate: &Fate) -> Result<bool> {
        let status = match fate {
            Fate::Complete => "completed",
            Fate::Abandon | Fate::Release => "abandoned",
            Fate::Bury(_) => "suspended",
        };
        let mut body = vec![
            ("disposition-status", Value::String(status.to_owned())),
            ("lock-tokens", tokens(std::iter::once(lock))),
        ];
        if let Fate::Bury(fields) = fate {
            body.extend(buried(fields));
        }
        self.ask("com.microsoft:update-disposition", body).await
    }

    async fn ask(&self, operation: &str, body: Vec<(&str, Value)>) -> Result<bool> {
        let asked = self.settings.about(&self.source);
        let body = body.into_iter().map(|(name, value)| (Value::String(name.to_owned()), value));
        let body = Value::Map(body.collect());
        let about = vec![("operation", operation.to_owned())];
        let asking = async { self.dialogue.lock().await.ask(about, body, asked).await };
        let answer = self.settings.in_time(asking).await?;
        match answer.status {
            404 | 410 => Ok(false),
            _ if answer.is_yes() => Ok(true),
            status => Err(asked.answered(status, &answer.why)),
        }
    }
}

fn tokens(locks: impl Iterator<Item = Lock>) -> Value {
    let locks: Vec<Value> = locks.map(|lock| Value::Uuid(Uuid::from(lock))).collect();
    Value::Array(Array::from(locks))
}

/// What is written on a dead letter, as this node wants it.
fn buried(fields: &Fields) -> Vec<(&'static str, Value)> {
    let mut body = Vec::with_capacity(3);
    let mut rest = OrderedMap::with_capacity(fields.len());
    for (name, value) in fields {
        match name.as_str() {
            "DeadLetterReason" => body.push(("deadletter-reason", value.clone())),
            "DeadLetterErrorDescription" => body.push(("deadletter-description", value.clone())),
            name => drop(rest.insert(Value::String(name.to_owned()), value.clone())),
        }
    }
    body.push(("properties-to-modify", Value::Map(rest)));
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An array has one constructor for all of its elements.
    #[test]
    fn locks_are_an_array_of_uuids_as_the_standard_has_it() {
        let bytes = serde_amqp::to_vec(&tokens([[1; 16], [2; 16]].into_iter())).unwrap();
        let mut wanted = vec![0xe0, 34, 2, 0x98];
        wanted.extend([[1; 16], [2; 16]].concat());
        assert_eq!(bytes, wanted, "{bytes:02x?}");
    }
}
