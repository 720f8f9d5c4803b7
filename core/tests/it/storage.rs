//! What every storage must do, tried on the memory storage. Each behaviour is one test that only
//! uses the contracts, so that the whole folder can become the suite for all storages.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a set-up that fails is a test that fails

mod claim;
mod command;
mod enqueue;
mod fire;
mod fixture;
mod inspect;
mod jobs;
mod lease;
mod prune;
mod reclaim;
mod record;
mod settle;
mod turns;
mod wakeup;
