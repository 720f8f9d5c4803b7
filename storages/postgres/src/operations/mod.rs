//! Operations: the calls of the contract and what they share, one file for each. Every call runs a fixed number of
//! statements on one connection.

pub(crate) mod batches;
pub(crate) mod broker_records;
pub(crate) mod claim;
pub(crate) mod claim_cursor;
pub(crate) mod commands;
pub(crate) mod copy;
pub(crate) mod deduplication;
pub(crate) mod documents;
pub(crate) mod enqueue;
pub(crate) mod extend;
pub(crate) mod fire;
pub(crate) mod groups;
pub(crate) mod import;
pub(crate) mod inbox;
pub(crate) mod jobs;
pub(crate) mod limits;
pub(crate) mod maintenance;
pub(crate) mod next_due;
pub(crate) mod progress;
pub(crate) mod rates;
pub(crate) mod relations;
pub(crate) mod reserved_keys;
pub(crate) mod settle;
pub(crate) mod settlements;
pub(crate) mod topics;
pub(crate) mod waiting_queues;
