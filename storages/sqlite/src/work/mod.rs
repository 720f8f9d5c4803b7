//! The hot path. Every function works inside a transaction that somebody else has opened, so that it
//! can be the writer's or the application's own.

mod batch;
mod claim;
mod enqueue;
mod extend;
mod finish;
mod hold;
mod keep;
mod lane;
mod put;
mod record;
mod restore;
mod settle;
mod topics;

#[cfg(feature = "sqlx")]
pub(crate) use self::{
    batch::{FORGET_WAITING, FREE_WAITING, POSTPONE, WAIT, end_of_time},
    enqueue::{
        FINISHED, INSERT, KEPT, REMOVE_FINISHED, REMOVE_PENDING, STRIP_FINISHED, TWIN, as_stored,
    },
    finish::{Finish, Rows, statement as finish_statement},
    hold::{FORGET, FORGOTTEN_MAX, HOLD, HOLDER, held},
    lane::lane_of,
    put::{BURY, KEEP, REMOVE},
    settle::{AGAIN_FENCED, CURRENT, token},
};
pub(crate) use batch::end_batch;
#[cfg(test)]
pub(crate) use claim::{NEXT_PRIORITY, due_of_priority};
pub(crate) use claim::{NOT_WAITING, claim, next_tokens};
pub(crate) use enqueue::{Enqueueing, enqueue, remove_finished, twin};
pub(crate) use extend::extend;
pub(crate) use hold::forget_held;
pub(crate) use keep::keep;
pub(crate) use lane::{first_due, has_lanes, lane_is_free};
pub(crate) use put::put;
pub(crate) use record::record;
pub(crate) use restore::restore;
pub(crate) use settle::{cancel_pending, settle, turn_is_free};
pub(crate) use topics::{condition, list};

/// Statements that are asked how they go about it.
#[cfg(test)]
pub(crate) mod searched {
    pub(crate) use super::batch::{FORGET_WAITING, FREE_WAITING, WAIT};
    pub(crate) use super::enqueue::TWIN;
    pub(crate) use super::hold::{FORGET, HOLDER};
    pub(crate) use super::lane::{NEXT_LANE, NEXT_QUEUE, RUNNING, pending_of_lane};
}
