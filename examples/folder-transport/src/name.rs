//! File names: when the message is due, its place in the order, and how often it was delivered.

use std::fmt::{self, Write as _};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use punctual::jiff::Timestamp;

static NEXT: AtomicU64 = AtomicU64::new(0);

/// Name of a message's file. Names sort by due time, then by the order of publishing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileName {
    /// When the message is due, in microseconds since 1970.
    pub(crate) due: i64,
    /// Identity of the file, in the order of publishing by one process.
    pub(crate) id: String,
    /// Number of deliveries so far.
    pub(crate) deliveries: u32,
}

impl FileName {
    pub(crate) fn new(now: Timestamp, delay: Duration) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let id = format!("{:020}-{}-{number:08}", now.as_microsecond(), std::process::id());
        Self { due: due(now, delay), id, deliveries: 0 }
    }

    /// Returns the name after one more delivery.
    pub(crate) fn delivered(self) -> Self {
        Self { deliveries: self.deliveries.saturating_add(1), ..self }
    }

    /// Returns the name of the same file, due after a delay.
    pub(crate) fn again(&self, now: Timestamp, delay: Duration) -> Self {
        Self { due: due(now, delay), ..self.clone() }
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:020}.{}.{}", self.due, self.id, self.deliveries)
    }
}

impl FromStr for FileName {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split('.');
        let (Some(due), Some(id), Some(deliveries), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(());
        };
        let (due, deliveries) = (due.parse().map_err(drop)?, deliveries.parse().map_err(drop)?);
        Ok(Self { due, id: id.to_owned(), deliveries })
    }
}

/// Returns when a message is due, rounded up so that it is never early.
fn due(now: Timestamp, delay: Duration) -> i64 {
    let delay = i64::try_from(delay.as_nanos().div_ceil(1_000)).unwrap_or(i64::MAX);
    now.as_microsecond().saturating_add(delay)
}

/// Returns a topic or a group as the name of a folder: letters, digits, `-` and `_` stay, other bytes are escaped.
pub(crate) fn escaped(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') {
            escaped.push(char::from(byte));
        } else {
            // Writing into a text cannot fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_by_due_time_then_by_order_of_publishing_and_read_back() {
        let now = Timestamp::UNIX_EPOCH;
        let (first, second) =
            (FileName::new(now, Duration::ZERO), FileName::new(now, Duration::ZERO));
        let later = FileName::new(now, Duration::from_nanos(1));
        assert!(first.to_string() < second.to_string() && second.to_string() < later.to_string());
        assert_eq!(
            later.delivered().to_string().parse::<FileName>().map(|name| name.deliveries),
            Ok(1)
        );
    }

    #[test]
    fn a_folder_name_has_no_separators_and_no_leading_dot() {
        assert_eq!(escaped("../a.b"), "%2E%2E%2Fa%2Eb");
    }
}
