//! Identifiers: UUID version 7, which sorts by creation, from an injected source, so that a simulation can
//! repeat them. This file is the only one that draws randomness.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::LeaseRef;
use crate::error::{Error, Result};

macro_rules! id {
    ($(#[$doc:meta])* $type:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $type(Uuid);

        impl $type {
            /// Wraps an id from a source or a storage.
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// Returns the id as a UUID.
            pub fn as_uuid(self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl FromStr for $type {
            type Err = Error;
            fn from_str(text: &str) -> Result<Self> {
                Uuid::parse_str(text).map(Self).map_err(|error| {
                    Error::invalid(format!(
                        concat!("{:?} is not a ", $what, " id; it looks like 01890a5d-ac96-774b-bcce-b302099a8057"),
                        text
                    ))
                    .caused_by(error)
                })
            }
        }
    };
}

id!(
    /// Id of a message, the same in every storage and on every transport.
    MessageId,
    "message"
);
id!(
    /// Id of an attempt, or of a skipped occurrence.
    ExecutionId,
    "execution"
);
id!(
    /// Id of a batch of messages.
    BatchId,
    "batch"
);
id!(
    /// Id of one start of one process; never reused, never a host name.
    ProcessId,
    "process"
);

impl ExecutionId {
    /// Returns the id of an attempt, computed from its lease and its start, so that every owner of the lease
    /// computes the same.
    pub(crate) fn of_lease(lease: LeaseRef, started_at: Timestamp) -> Self {
        let (high, low) = lease.message.0.as_u64_pair();
        let hash = mix(mix(high ^ low.rotate_left(7)).wrapping_add(lease.token));
        let millisecond = u64::try_from(started_at.as_millisecond()).unwrap_or(0);
        let bits = mix(hash.wrapping_add(millisecond));
        let high = (millisecond << 16) | 0x7000 | (bits & u64::from(COUNTER_MAX));
        Self(Uuid::from_u64_pair(high, (hash >> 2) | (0b10 << 62)))
    }

    /// Returns when it was created, to the millisecond.
    pub(crate) fn instant(self) -> Timestamp {
        let millisecond = i64::try_from(self.0.as_u64_pair().0 >> 16).unwrap_or(0);
        Timestamp::from_millisecond(millisecond).unwrap_or(Timestamp::UNIX_EPOCH)
    }
}

/// Source of identifiers.
pub trait IdSource: Send + Sync + fmt::Debug + 'static {
    /// Returns a new identifier; later calls at the same or a later instant return greater ones.
    fn next(&self, now: Timestamp) -> Uuid;
}

/// Default source: version 7 with a counter inside the millisecond, so that ids of one process never go
/// backwards, not even when its clock does.
#[derive(Debug)]
pub struct Ids {
    state: Mutex<IdState>,
}

#[derive(Debug)]
struct IdState {
    random: u64,
    millisecond: u64,
    counter: u16,
}

/// Largest counter: the twelve bits between version and variant.
const COUNTER_MAX: u16 = 0x0fff;

impl Ids {
    /// Returns a source that differs in every process.
    pub fn random() -> Self {
        // The keys of the standard hasher come from the operating system.
        Self::seeded(RandomState::new().build_hasher().finish())
    }

    /// Returns a source that repeats the same ids for the same seed.
    pub fn seeded(seed: u64) -> Self {
        Self { state: Mutex::new(IdState { random: seed, millisecond: 0, counter: 0 }) }
    }
}

impl IdSource for Ids {
    fn next(&self, now: Timestamp) -> Uuid {
        let wanted = u64::try_from(now.as_millisecond()).unwrap_or(0);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if wanted > state.millisecond {
            state.millisecond = wanted;
            state.counter = 0;
        } else if state.counter < COUNTER_MAX {
            state.counter += 1;
        } else {
            state.millisecond += 1;
            state.counter = 0;
        }
        state.random = state.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let high = (state.millisecond << 16) | 0x7000 | u64::from(state.counter);
        let low = (mix(state.random) >> 2) | (0b10 << 62);
        Uuid::from_u64_pair(high, low)
    }
}

/// Mixes bits with the finalizer of splitmix64: every input bit affects every output bit.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millisecond: i64) -> Timestamp {
        Timestamp::from_millisecond(millisecond).unwrap()
    }

    #[test]
    fn ids_are_version_7_and_sort_by_creation() {
        let ids = Ids::seeded(1);
        let mut last = ids.next(at(1_000));
        assert_eq!(last.get_version_num(), 7);
        // More than the counter holds in one millisecond, and a clock that steps back.
        for index in 0..10_000 {
            let next = ids.next(at(if index % 7 == 0 { 900 } else { 1_000 }));
            assert!(next > last, "{next} after {last}");
            last = next;
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_ids_and_another_seed_others() {
        let (a, b, c) = (Ids::seeded(9), Ids::seeded(9), Ids::seeded(10));
        assert_eq!(a.next(at(5)), b.next(at(5)));
        assert_ne!(a.next(at(5)), c.next(at(5)));
        assert_ne!(Ids::random().next(at(5)), Ids::random().next(at(5)));
    }

    #[test]
    fn an_error_about_a_wrong_id_shows_an_example() {
        let error = "seven".parse::<MessageId>().unwrap_err().to_string();
        assert!(error.contains("\"seven\" is not a message id"), "{error}");
    }
}
