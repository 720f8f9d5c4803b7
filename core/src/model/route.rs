//! Route: where a message goes that the storage holds for a transport, with the counters that the transport would
//! lose. The message itself stays as it was sent.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Headers, Message, MessageId, TransportName, reserved_headers};

/// Route of a message that the storage holds for a transport.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// Transport.
    pub transport: TransportName,
    /// The only group that receives it; `None` for all groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Arc<str>>,
    /// Number of attempts spent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempt: u32,
    /// Number of snoozes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub snoozes: u32,
    /// Duration for which it was put off because it had no handler.
    #[serde(default, with = "super::duration_text", skip_serializing_if = "Duration::is_zero")]
    pub unhandled: Duration,
    /// First due time, where the message is due again; proportional retries are measured from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_due_at: Option<Timestamp>,
    /// Original id, where the message is stored under another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_id: Option<MessageId>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is that of serde")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Route {
    /// Returns the route of a message that was not sent yet, to all groups of a transport.
    pub fn new(transport: TransportName) -> Self {
        Self {
            transport,
            group: None,
            attempt: 0,
            snoozes: 0,
            unhandled: Duration::ZERO,
            first_due_at: None,
            original_id: None,
        }
    }

    /// Returns whether it has nothing but a transport. A storage need not store such a route, because
    /// [`Message::restore_route`] derives it from the queue.
    pub fn is_plain(&self) -> bool {
        let Self { transport: _, group, attempt, snoozes, unhandled, first_due_at, original_id } =
            self;
        group.is_none()
            && (*attempt, *snoozes, *unhandled) == (0, 0, Duration::ZERO)
            && first_due_at.is_none()
            && original_id.is_none()
    }

    /// Takes the route of an earlier record format out of the headers that it was kept in.
    fn take_from(headers: &mut Headers, transport: TransportName) -> Self {
        fn take<T: FromStr>(headers: &mut Headers, name: &str) -> Option<T> {
            headers.remove(name)?.parse().ok()
        }
        let mut route = Self::new(transport);
        route.group = headers.remove("punctual-group").map(Arc::from);
        if route.group.is_some() {
            let unhandled = take(headers, reserved_headers::UNHANDLED).unwrap_or_default();
            route.attempt = take(headers, "punctual-attempt").unwrap_or_default();
            route.snoozes = take(headers, reserved_headers::SNOOZES).unwrap_or_default();
            route.unhandled = Duration::from_secs(unhandled);
            route.first_due_at = take(headers, "punctual-due");
            route.original_id = take(headers, "punctual-id");
        }
        route
    }
}

impl Message {
    /// Returns the transport for which the storage holds it; `None` when workers claim it.
    pub fn transport(&self) -> Option<&TransportName> {
        self.route.as_ref().map(|route| &route.transport)
    }

    /// Adds the route of a message that was stored without one: a plain route, which its queue implies, or
    /// one of an earlier record format, which kept it in headers.
    pub fn restore_route(&mut self) {
        if self.route.is_some() {
            return;
        }
        if let Some(transport) = self.queue.relay_transport() {
            let mut route = Route::take_from(&mut self.headers, transport);
            route.first_due_at = route.first_due_at.filter(|due_at| *due_at != self.due_at);
            self.route = Some(Arc::new(route));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Queue;
    use crate::wire::tests::message;

    fn held() -> Message {
        Message { queue: Queue::of_relay(&TransportName::new("post").unwrap()), ..message() }
    }

    #[test]
    fn a_route_in_headers_becomes_a_field_and_leaves_the_headers_as_sent() {
        let mut old = held();
        let (first_due_at, id) = (Timestamp::from_second(7).unwrap(), old.id);
        let headers = old.headers.clone();
        for (name, value) in [
            ("punctual-group", "office".to_owned()),
            ("punctual-attempt", "2".to_owned()),
            (reserved_headers::SNOOZES, "3".to_owned()),
            (reserved_headers::UNHANDLED, "75".to_owned()),
            ("punctual-due", first_due_at.to_string()),
            ("punctual-id", id.to_string()),
        ] {
            old.headers.set_reserved(name, value);
        }
        old.restore_route();
        assert_eq!(old.headers, headers);
        let expected = Route {
            group: Some(Arc::from("office")),
            attempt: 2,
            snoozes: 3,
            unhandled: Duration::from_secs(75),
            first_due_at: Some(first_due_at),
            original_id: Some(id),
            ..Route::new(TransportName::new("post").unwrap())
        };
        assert_eq!(old.route.as_deref(), Some(&expected));
        let text = serde_json::to_string(&expected).unwrap();
        assert_eq!(serde_json::from_str::<Route>(&text).unwrap(), expected);
    }

    #[test]
    fn a_plain_route_follows_from_the_queue_and_other_messages_have_none() {
        let (mut held, mut other) = (held(), message());
        held.restore_route();
        other.restore_route();
        assert!(held.route.is_some_and(|route| route.is_plain()));
        assert_eq!(other.route, None);
    }
}
