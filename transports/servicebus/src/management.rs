//! Management node of a queue or subscription: renews locks, and settles deliveries whose link is gone while
//! their lock is still valid.

use std::sync::Arc;

use fe2o3_amqp::types::definitions::Fields;
use fe2o3_amqp::types::primitives::{Array, OrderedMap, Uuid, Value};
use punctual::Result;
use tokio::sync::Mutex;

use crate::receipt::Disposition;
use crate::request_link::RequestLink;
use crate::settings::Settings;

/// Lock token of a delivery.
pub(crate) type Lock = [u8; 16];

/// Requests to one management node.
pub(crate) struct Management {
    pub(crate) settings: Arc<Settings>,
    pub(crate) source: String,
    pub(crate) request_link: Mutex<RequestLink>,
}

impl Management {
    /// Renews locks; returns false when one of them is lost.
    pub(crate) async fn renew(&self, locks: impl Iterator<Item = Lock>) -> Result<bool> {
        let body = vec![("lock-tokens", tokens(locks))];
        self.request("com.microsoft:renew-lock", body).await
    }

    /// Settles a delivery by its lock; returns false when the lock is lost.
    pub(crate) async fn settle(&self, lock: Lock, disposition: &Disposition) -> Result<bool> {
        let status = match disposition {
            Disposition::Complete => "completed",
            Disposition::Abandon | Disposition::Release => "abandoned",
            Disposition::DeadLetter(_) => "suspended",
        };
        let mut body = vec![
            ("disposition-status", Value::String(status.to_owned())),
            ("lock-tokens", tokens(std::iter::once(lock))),
        ];
        if let Disposition::DeadLetter(fields) = disposition {
            body.extend(dead_letter_fields(fields));
        }
        self.request("com.microsoft:update-disposition", body).await
    }

    async fn request(&self, operation: &str, body: Vec<(&str, Value)>) -> Result<bool> {
        let context = self.settings.error_context(&self.source);
        let body = body.into_iter().map(|(name, value)| (Value::String(name.to_owned()), value));
        let body = Value::Map(body.collect());
        let properties = vec![("operation", operation.to_owned())];
        let requesting =
            async { self.request_link.lock().await.request(properties, body, context).await };
        let response = self.settings.within_timeout(requesting).await?;
        match response.status {
            404 | 410 => Ok(false),
            _ if response.is_success() => Ok(true),
            status => Err(context.map_status(status, &response.description)),
        }
    }
}

fn tokens(locks: impl Iterator<Item = Lock>) -> Value {
    let locks: Vec<Value> = locks.map(|lock| Value::Uuid(Uuid::from(lock))).collect();
    Value::Array(Array::from(locks))
}

/// Returns the fields of a dead letter in the form of the management node.
fn dead_letter_fields(fields: &Fields) -> Vec<(&'static str, Value)> {
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
