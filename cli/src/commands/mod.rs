//! One file per command.

pub(crate) mod audit;
pub(crate) mod config;
pub(crate) mod consume;
pub(crate) mod cron;
pub(crate) mod crontab;
pub(crate) mod dead;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod executions;
mod input;
pub(crate) mod jobs;
pub(crate) mod login;
pub(crate) mod messages;
mod paging;
pub(crate) mod prune;
pub(crate) mod publish;
pub(crate) mod queues;
pub(crate) mod serve;
pub(crate) mod shell;
pub(crate) mod storage;
pub(crate) mod subscriptions;
pub(crate) mod tokens;
#[cfg(feature = "top")]
pub(crate) mod top;
pub(crate) mod topics;
pub(crate) mod transfer;
mod transport;
pub(crate) mod users;
pub(crate) mod webhooks;
pub(crate) mod workers;
