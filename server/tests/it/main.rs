//! The server in process: every endpoint on the memory storage, with a clock that stands still until it is
//! told to move. One binary for all.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a set-up that fails is a test that fails

mod assembly;
mod jobs;
mod site;
mod targets;
