//! The server in process: every endpoint on the memory storage, with a clock that stands still until it is
//! told to move. One binary for all.

mod assembly;
mod jobs;
mod site;
mod targets;
