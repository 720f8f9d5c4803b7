//! Delay place: decides from the delay of a message and from what the transport supports where the message
//! waits: in the transport when it can delay that long, else in the storage. Without a storage the call is
//! refused, because a timer in one process would lose the message with it. A message without a delay is sent
//! directly.

use std::time::Duration;

use crate::error::Error;
use crate::model::Delay;
use crate::model::MessageId;

/// Places where a message can wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DelayOptions {
    /// Longest delay that the transport supports.
    pub native: Delay,
    /// Whether the process has a storage.
    pub storage: bool,
    /// Whether the storage is used even where the transport supports the delay.
    pub prefer_storage: bool,
}

/// Place where a delayed message waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DelayPlace {
    /// Nowhere: it is sent at once.
    NoDelay,
    /// In the transport: it is sent with this delay.
    Transport(Duration),
    /// In the storage: it is stored for this long, then relayed.
    Storage(Duration),
    /// Neither can delay it; [`delay_unsupported`] returns the error.
    Unsupported,
}

/// Decides where a message waits for `delay`. No delay and a negative one are zero.
pub(crate) fn delay_place(delay: Duration, options: DelayOptions) -> DelayPlace {
    if delay.is_zero() {
        DelayPlace::NoDelay
    } else if options.storage && options.prefer_storage {
        DelayPlace::Storage(delay)
    } else if options.native.supports(delay) {
        DelayPlace::Transport(delay)
    } else if options.storage {
        DelayPlace::Storage(delay)
    } else {
        DelayPlace::Unsupported
    }
}

/// Returns the error of [`DelayPlace::Unsupported`]: the message, its delay, and what to do.
pub(crate) fn delay_unsupported(message: MessageId, delay: Duration, native: Delay) -> Error {
    let reach = match native {
        Delay::UpTo(limit) if !limit.is_zero() => format!("delays by {limit:?} at most"),
        _ => "cannot delay".to_owned(),
    };
    Error::invalid(format!(
        "message {message} cannot be delayed by {delay:?}: its transport {reach} and there is no \
         storage to keep it in; give the builder a storage, or send it without a delay"
    ))
    .with("message", message)
}

#[cfg(test)]
mod tests;
