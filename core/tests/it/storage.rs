//! What every storage must do, tried on the memory storage. Each behaviour is one test that only
//! uses the contracts, so that the whole folder can become the suite for all storages.

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
mod wakeup;
