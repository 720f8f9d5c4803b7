//! The hot path. Every function works inside a transaction that somebody else has opened, so that it
//! can be the writer's or the application's own.

mod claim;
mod enqueue;
mod extend;
mod finish;
mod put;
mod record;
mod restore;
mod settle;

#[cfg(feature = "sqlx")]
pub(crate) use self::{
    enqueue::{
        FINISHED, INSERT, KEPT, REMOVE_FINISHED, REMOVE_PENDING, STRIP_FINISHED, TWIN, as_stored,
    },
    finish::{Finish, statement as finish_statement},
    put::{BURY, KEEP, REMOVE},
    settle::{AGAIN_FENCED, CURRENT, token},
};
#[cfg(test)]
pub(crate) use claim::{NEXT_PRIORITY, due_of_priority};
pub(crate) use claim::{NOT_WAITING, claim, next_tokens};
pub(crate) use enqueue::{Enqueueing, enqueue, remove_finished, twin};
pub(crate) use extend::extend;
pub(crate) use record::record;
pub(crate) use restore::restore;
pub(crate) use settle::{cancel_pending, settle, turn_is_free};
