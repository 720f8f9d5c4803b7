//! Built-in parts that need nothing installed: the storage in memory, which is also the reference for
//! every other one, a transport over any storage, middleware that skips repeated deliveries, and a clock
//! that tests advance manually.

mod deduplicate;
mod manual_clock;
mod memory_storage;
mod stored_transport;

pub use deduplicate::Deduplicate;
pub use manual_clock::ManualClock;
pub use memory_storage::MemoryStorage;
pub use stored_transport::{LEASE_DURATION_DEFAULT, StoredTransport, memory_transport};

pub use crate::model::GROUP_DEFAULT;
