//! Private servers on this machine: one file per product, and their common parts.
//!
//! A server has a scratch folder, a free loopback port and an owner: the run that started it (`Running`, with a
//! supervisor that stops it also when the run is killed) or the user who requested it (`detached`, until
//! `down`). Every scratch folder is recorded, so that none is left behind.

mod availability;
pub mod cache;
pub mod detached;
mod mqtt;
mod nats;
mod place;
mod postgres;
mod process;
mod rabbitmq;
pub mod readiness;
mod record;
mod redis;
mod running;
mod server;
mod sqs;
pub mod virtual_environment;

pub use availability::{Availability, LEFT_OUT};
pub use mqtt::Mqtt;
pub use nats::Nats;
pub use place::{Durability, Place};
pub use postgres::Postgres;
pub use rabbitmq::Rabbitmq;
pub use record::{Owner, Record};
pub use redis::Redis;
pub use running::Running;
pub use server::{SERVERS, Server, named};
pub use sqs::Sqs;
