//! One file per command.

pub(crate) mod cron;
pub(crate) mod demo;
