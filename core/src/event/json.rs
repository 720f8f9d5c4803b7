//! JSON form of an event, for live views: its name under `event`, then its fields under the names of the list.
//! A duration is a whole number of milliseconds, with a name such as `took_ms`.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value};
use tracing::field::{DebugValue, debug};

use super::Event;
use crate::model::{
    DeadReason, ExecutionId, JobName, MessageId, MisfirePolicy, ProcessId, Queue, SkipReason,
    Topic, TransportName,
};

impl Event {
    /// Returns the event as a JSON object with stable names.
    ///
    /// ```
    /// let event = punctual::Event::LeasesRescued { count: 3 };
    /// assert_eq!(event.to_json().to_string(), r#"{"count":3,"event":"leases.rescued"}"#);
    /// ```
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("event".to_owned(), Value::from(self.name()));
        self.write(&mut object);
        Value::Object(object)
    }
}

/// Value of a field of an event.
pub(super) trait EventField: Debug + Sized {
    /// Returns it as JSON.
    fn value(&self) -> Value;

    /// Returns it for the log, which omits fields without a value.
    fn logged(&self) -> Option<DebugValue<&dyn Debug>> {
        Some(debug(self as &dyn Debug))
    }

    /// Inserts it into an object.
    fn write(&self, name: &'static str, object: &mut Map<String, Value>) {
        object.insert(name.to_owned(), self.value());
    }
}

macro_rules! event_fields {
    ($($type:ty),*) => {
        $(impl EventField for $type {
            fn value(&self) -> Value {
                // None of them can fail: they are text and numbers.
                serde_json::to_value(self).unwrap_or_default()
            }
        })*
    };
}

event_fields!(
    &'static str,
    Arc<str>,
    DeadReason,
    ExecutionId,
    JobName,
    MessageId,
    MisfirePolicy,
    ProcessId,
    Queue,
    SkipReason,
    String,
    Timestamp,
    Topic,
    TransportName,
    i64,
    u8,
    u32,
    u64,
    usize
);

impl<T: EventField> EventField for Option<T> {
    fn value(&self) -> Value {
        self.as_ref().map_or(Value::Null, EventField::value)
    }

    fn logged(&self) -> Option<DebugValue<&dyn Debug>> {
        self.as_ref().and_then(EventField::logged)
    }
}

impl EventField for Duration {
    fn value(&self) -> Value {
        Value::from(u64::try_from(self.as_millis()).unwrap_or(u64::MAX))
    }

    fn write(&self, name: &'static str, object: &mut Map<String, Value>) {
        object.insert(format!("{name}_ms"), self.value());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{IdSource, Ids};

    #[test]
    fn every_field_has_its_name_and_durations_are_milliseconds() {
        let now = Timestamp::UNIX_EPOCH;
        let id = Ids::seeded(1).next(now);
        let event = Event::AttemptFailed {
            message: MessageId::from_uuid(id),
            execution: ExecutionId::from_uuid(id),
            topic: Topic::new("mail").unwrap(),
            job: None,
            nominal: Some(now),
            attempt: 2,
            took: Duration::from_micros(7_250),
            ending: "failed",
            error: Some(Arc::from("no route")),
            again_at: None,
        };
        let json = event.to_json();
        let expected = serde_json::json!({
            "event": "attempt.failed",
            "message": id.to_string(),
            "execution": id.to_string(),
            "topic": "mail",
            "job": null,
            "nominal": "1970-01-01T00:00:00Z",
            "attempt": 2,
            "took_ms": 7,
            "ending": "failed",
            "error": "no route",
            "again_at": null,
        });
        assert_eq!(json, expected);
    }

    #[test]
    fn the_log_omits_missing_values_and_wraps_nothing() {
        let logged = |field: &Option<u32>| field.logged().map(|value| format!("{value:?}"));
        assert_eq!(logged(&Some(7)), Some("7".to_owned()));
        assert_eq!(logged(&None), None);
    }
}
