//! Private servers on this machine: one file per product, and what all of them share.
//!
//! A server lives in a scratch folder on a free loopback port and belongs to somebody: to the run that
//! started it (`Running`, on a leash that also holds when the run is killed) or to the person who asked
//! for it (`detached`, until `down`). Every scratch folder is on record, so that nothing is forgotten.

pub mod asking;
pub mod cache;
pub mod detached;
mod mqtt;
mod nats;
mod place;
mod postgres;
mod presence;
mod process;
mod rabbitmq;
mod record;
mod redis;
mod running;
mod server;
mod sqs;
pub mod virtual_environment;

pub use mqtt::Mqtt;
pub use nats::Nats;
pub use place::{Durability, Place};
pub use postgres::Postgres;
pub use presence::{LEFT_OUT, Presence};
pub use rabbitmq::Rabbitmq;
pub use record::{Keeper, Record};
pub use redis::Redis;
pub use running::Running;
pub use server::{SERVERS, Server, named};
pub use sqs::Sqs;
