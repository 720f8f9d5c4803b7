//! Simulation of Punctual: several processes with one storage and one broker in one thread, under virtual time, with
//! seeded faults. Every storage call is checked against its contract and every firing against a reference model; at
//! the end no message may be left. The same seed always gives the same run. See `docs/simulation.md`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a simulation that cannot be set up has failed"
)]

mod broker;
mod faults;
mod faulty_storage;
mod handlers;
mod ledger;
mod machine;
mod plans;
mod random;
mod reference;
mod report;
mod shared;
mod workload;
mod world;

pub use report::{Replay, Summary};
