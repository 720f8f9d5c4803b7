//! The server in process: every endpoint on the memory storage, with a clock that stands still until it is
//! told to move. One binary for all.

mod assembly;
mod dead;
mod idempotency;
mod jobs;
mod messages;
mod messages_bulk;
mod messages_sending;
mod queues;
mod site;
mod targets;
mod topics;
mod work;
