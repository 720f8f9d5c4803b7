//! Kills workers of Punctual again and again, and keeps a ledger of what became of every message.
//!
//! The simulation of the core shows that the decisions are right under faults that are made up. This
//! shows the same for real processes, real storages and real kills: three workers share one storage,
//! they are killed at random moments and at chosen ones, and in the end every acknowledged message must
//! be done, and every repeated run must have its reason. `docs/chaos.md` says what is killed and what is
//! checked.

pub mod check;
pub mod dice;
pub mod drive;
pub mod fuse;
pub mod keyed;
pub mod ledger;
pub mod open;
mod process;
pub mod table;
pub mod watched;
pub mod worker;
