//! Deadline of a settlement: `settle_timeout`, for the storage and the broker together. A settlement that does
//! not return by then is given up, so that its slot is free again. Nothing is lost: an unconfirmed message is
//! delivered again, by the broker or when the lease ends.

use std::future::Future;

use crate::clock::within;
use crate::engine::Process;
use crate::error::{Error, Result};
use crate::model::MessageId;
use crate::model::time::add;

/// Runs one settlement of a message until its deadline. Past it the work is dropped and the error is
/// [unavailable](crate::ErrorKind::Unavailable).
pub(crate) async fn within_settle_timeout<T>(
    process: &Process,
    message: MessageId,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    let timeout = process.env.options.settle_timeout;
    let until = add(process.now(), timeout);
    let settled = within(&*process.env.clock, until, work).await;
    settled.unwrap_or_else(|| {
        Err(Error::unavailable(format!(
            "the settlement did not end within settle_timeout ({timeout:?}) and was given up; the message \
             is delivered again"
        ))
        .with("message", message))
    })
}
