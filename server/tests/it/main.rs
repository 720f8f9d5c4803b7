//! The server in process: every endpoint on the memory storage, with a clock that stands still until it is
//! told to move. One binary for all.

mod assembly;
mod dead;
mod events;
mod health;
mod idempotency;
mod jobs;
mod living;
mod messages;
mod messages_bulk;
mod messages_sending;
mod metrics;
mod overview;
mod queues;
mod remote;
mod site;
mod targets;
mod topics;
mod views;
mod webhooks;
mod work;
