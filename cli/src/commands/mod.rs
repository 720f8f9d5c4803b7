//! One file per command.

mod carried;
pub(crate) mod config;
pub(crate) mod consume;
pub(crate) mod cron;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod publish;
pub(crate) mod serve;
mod storage;
pub(crate) mod topics;
pub(crate) mod transfer;
