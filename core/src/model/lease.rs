//! Lease: the temporary right of one process to one message. The token is the fence: every claim gets a greater
//! one, and only the current token may settle.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{MessageId, ProcessId};

/// Right to a message: its owner, its end, and the token that proves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Process that owns it.
    pub owner: ProcessId,
    /// Fencing token, greater than every token that the storage granted before.
    pub token: u64,
    /// End; strictly after it the message may be taken over.
    pub until: Timestamp,
}

impl Lease {
    /// Returns whether it has expired: strictly after its end, so that it is valid exactly at its end.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        now > self.until
    }
}

/// Reference to a lease, as passed to a settlement or an extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeaseRef {
    /// Message under the lease.
    pub message: MessageId,
    /// Token it was claimed with.
    pub token: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: H-4
    #[test]
    fn a_lease_is_valid_exactly_at_its_end_and_not_after() {
        let until = Timestamp::from_second(100).unwrap();
        let lease = Lease { owner: ProcessId::from_uuid(uuid::Uuid::nil()), token: 1, until };
        assert!(!lease.is_expired(until));
        assert!(lease.is_expired(Timestamp::from_nanosecond(100_000_000_001).unwrap()));
    }
}
