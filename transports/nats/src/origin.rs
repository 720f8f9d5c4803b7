//! Origin of a delivery: its sequence in the stream and its delivery count. JetStream encodes them in the
//! acknowledgement subject, and nowhere else.

use punctual::jiff::Timestamp;

/// Contents of an acknowledgement subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// How often it was delivered to this group, from 1.
    pub(crate) delivered: u32,
    /// Sequence number in the stream.
    pub(crate) sequence: u64,
    /// When the broker stored it.
    pub(crate) stored_at: Timestamp,
}

impl Origin {
    /// Parses `$JS.ACK.<stream>.<consumer>.<delivered>.<sequence>.<..>.<time>.<..>`; newer brokers add domain and
    /// account before the stream, and may append more parts.
    pub(crate) fn parse(subject: &str) -> Option<Self> {
        let rest = subject.strip_prefix("$JS.ACK.")?;
        let count = rest.split('.').count();
        let skipped = match count {
            7 => 2,
            9.. => 4,
            _ => return None,
        };
        let mut parts = rest.split('.').skip(skipped);
        let delivered = parts.next()?.parse().ok()?;
        let sequence = parts.next()?.parse().ok()?;
        let time: i128 = parts.nth(1)?.parse().ok()?;
        Some(Self { delivered, sequence, stored_at: Timestamp::from_nanosecond(time).ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read() {
        let expected = Origin {
            delivered: 3,
            sequence: 41,
            stored_at: "2026-01-02T03:04:05.000000006Z".parse().unwrap(),
        };
        let time = expected.stored_at.as_nanosecond();
        for subject in [
            format!("$JS.ACK.shop_orders.mail.3.41.7.{time}.0"),
            format!("$JS.ACK.hub.hash.shop_orders.mail.3.41.7.{time}.0"),
            format!("$JS.ACK._.hash.shop_orders.mail.3.41.7.{time}.0.random"),
        ] {
            assert_eq!(Origin::parse(&subject), Some(expected), "{subject}");
        }
    }

    #[test]
    fn anything_else_is_not_a_delivery() {
        for subject in ["", "$JS.ACK.a.b.1.2.3.4", "_INBOX.a.b", "$JS.ACK.a.b.x.2.3.4.0"] {
            assert_eq!(Origin::parse(subject), None, "{subject}");
        }
    }
}
