//! Chaos tests: kill workers and servers of Punctual repeatedly, with a ledger of every message.
//!
//! The simulation shows that decisions are correct under simulated faults. These tests show the same for real
//! processes, storages and kills: three workers share one storage and are killed at random and at chosen points; in
//! the end every acknowledged message must be done, and every repeated run must have a reason. See `docs/chaos.md`.

pub mod check;
pub mod driver;
pub mod fuse;
pub mod keyed;
pub mod ledger;
pub mod open;
mod process;
pub mod random;
pub mod recording_storage;
pub mod table;
pub mod worker;
