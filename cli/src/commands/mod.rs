//! One file per command.

mod carried;
pub(crate) mod consume;
pub(crate) mod cron;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod publish;
mod storage;
pub(crate) mod topics;
pub(crate) mod transfer;
