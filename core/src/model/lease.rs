//! A lease: the temporary right of one process to one message. The token is the fence: every claim
//! gets a greater one, and only the current token may settle.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{MessageId, ProcessId};

/// Who may work on a message, until when, and the token that proves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The process that holds it.
    pub owner: ProcessId,
    /// Greater than every token given out before by the same storage.
    pub token: u64,
    /// The instant after which it may be taken over.
    pub until: Timestamp,
}

impl Lease {
    /// Whether it has run out: strictly after its end, so that exactly at the limit it still holds.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        now > self.until
    }
}

/// Names a lease without its end: what a settlement or an extension must show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeaseRef {
    /// The message under the lease.
    pub message: MessageId,
    /// The token it was claimed with.
    pub token: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: H-4
    #[test]
    fn a_lease_holds_exactly_at_its_end_and_not_after() {
        let until = Timestamp::from_second(100).unwrap();
        let lease = Lease { owner: ProcessId::from_uuid(uuid::Uuid::nil()), token: 1, until };
        assert!(!lease.is_expired(until));
        assert!(lease.is_expired(Timestamp::from_nanosecond(100_000_000_001).unwrap()));
    }
}
