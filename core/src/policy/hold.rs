//! Hold: who makes a message wait. The transport when it can wait that long, else the storage, else
//! nobody: then the call is refused, because a timer in one process would lose the message with it.
//! A message that need not wait is sent without looking at any of this.

use std::time::Duration;

use crate::error::Error;
use crate::model::MessageId;
use crate::transport::Delay;

/// What there is to make a message wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayOptions {
    /// How long the transport can delay by itself.
    pub native: Delay,
    /// Whether there is a storage.
    pub storage: bool,
    /// Whether the storage keeps delayed messages even where the transport could.
    pub prefer_storage: bool,
}

/// Who makes a message wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldDecision {
    /// Nobody: send it at once.
    Send,
    /// The transport: send it with this delay.
    SendDelayed(Duration),
    /// The storage: keep it for this long, then relay it.
    Keep(Duration),
    /// Nobody can; [`cannot_wait`] says so.
    Refuse,
}

/// Decides who makes a message wait for `wanted`. No delay and a negative one are zero.
pub fn hold(wanted: Duration, means: DelayOptions) -> HoldDecision {
    if wanted.is_zero() {
        HoldDecision::Send
    } else if means.storage && means.prefer_storage {
        HoldDecision::Keep(wanted)
    } else if means.native.reaches(wanted) {
        HoldDecision::SendDelayed(wanted)
    } else if means.storage {
        HoldDecision::Keep(wanted)
    } else {
        HoldDecision::Refuse
    }
}

/// The configuration error behind [`HoldDecision::Refuse`]: which message, what it wanted, what to do.
pub fn cannot_wait(message: MessageId, wanted: Duration, native: Delay) -> Error {
    let reach = match native {
        Delay::UpTo(limit) if !limit.is_zero() => format!("delays by {limit:?} at most"),
        _ => "cannot delay".to_owned(),
    };
    Error::invalid(format!(
        "message {message} cannot be delayed by {wanted:?}: its transport {reach} and there is no \
         storage to keep it in; give the builder a storage, or send it without a delay"
    ))
    .with("message", message)
}

#[cfg(test)]
mod tests;
