//! One file per command.

pub(crate) mod cron;
pub(crate) mod demo;
pub(crate) mod doctor;
mod storage;
pub(crate) mod transfer;
