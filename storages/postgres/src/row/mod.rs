//! Rows: encodes records as columns and decodes them.

mod execution;
mod message;

pub(crate) use self::execution::{ExecutionArrays, execution};
pub(crate) use self::message::{MessageArrays, StateArrays, claimed_message, job_of, record};
