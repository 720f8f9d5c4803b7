//! Operations: the calls of the contract and what they share, one file for each. Every function runs inside a
//! transaction that the caller has opened, so that it can be that of the writer or of the application.

mod batches;
mod broker_records;
mod claim;
pub(crate) mod claim_cursor;
pub(crate) mod commands;
pub(crate) mod documents;
mod enqueue;
mod extend;
mod finish;
pub(crate) mod fire;
pub(crate) mod groups;
mod import;
pub(crate) mod inbox;
pub(crate) mod jobs;
mod limits;
pub(crate) mod maintenance;
mod message_rows;
pub(crate) mod next_due;
mod progress;
pub(crate) mod rates;
mod reserved_keys;
mod settle;
mod topics;

pub(crate) use batches::end_batch;
pub(crate) use broker_records::record;
#[cfg(test)]
pub(crate) use claim::{NEXT_PRIORITY, due_of_priority};
pub(crate) use claim::{NOT_BLOCKED, claim, next_tokens};
pub(crate) use enqueue::{alive_with_key, enqueue, remove_finished};
pub(crate) use extend::extend;
pub(crate) use import::import_messages;
pub(crate) use limits::{first_due, has_limits, notify_limit_queues};
pub(crate) use message_rows::insert_record;
pub(crate) use progress::save_progress;
pub(crate) use reserved_keys::delete_expired_keys;
pub(crate) use settle::{cancel_pending, notify_job_queues, settle};
pub(crate) use topics::{condition, list};

/// Statements whose query plans are tested.
#[cfg(test)]
pub(crate) mod planned_statements {
    pub(crate) use super::batches::{FORGET_WAITING, FREE_WAITING, WAIT};
    pub(crate) use super::enqueue::ALIVE_WITH_KEY;
    pub(crate) use super::limits::{NEXT_LIMIT, NEXT_QUEUE, RUNNING, pending_of_limit};
    pub(crate) use super::reserved_keys::{DELETE_EXPIRED_KEYS, KEY_RESERVATION};
}
