//! Routing of a message: its transport or the storage, its group, and its delivery mode.

use super::{Publish, Sending};
use crate::error::{Error, Result};
use crate::model::{NAME_LEN_MAX, TransportName};

/// The carrier of a draft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// The transport of the topic's route, else the storage.
    Routed,
    Storage,
    Transport(TransportName),
}

impl Publish {
    /// Sets its transport. Default: the transport of its topic's route, else the storage.
    pub fn via(self, transport: impl AsRef<str>) -> Self {
        self.set(|draft| {
            draft.via = Via::Transport(TransportName::new(transport)?);
            Ok(())
        })
    }

    /// Sends it by the storage, regardless of its route.
    pub fn via_storage(self) -> Self {
        self.edit(|draft| draft.via = Via::Storage)
    }

    /// Delivers it to this group only. Messages that the storage carries have one handler and no groups.
    pub fn group(self, group: impl Into<String>) -> Self {
        self.set(|draft| {
            draft.group = Some(checked_group(group.into())?);
            Ok(())
        })
    }

    /// Sets its delivery mode; without effect when the storage carries it.
    pub fn sending(self, sending: Sending) -> Self {
        self.edit(|draft| draft.sending = Some(sending))
    }

    /// Sets [`Sending::Direct`]: published to its transport now.
    pub fn direct(self) -> Self {
        self.sending(Sending::Direct)
    }

    /// Sets [`Sending::Durable`]: stored first, then published by the relay.
    pub fn durable(self) -> Self {
        self.sending(Sending::Durable)
    }

    /// Sets [`Sending::Automatic`]: published to its transport now, stored after a temporary error.
    pub fn automatic(self) -> Self {
        self.sending(Sending::Automatic)
    }
}

/// Checks a group name. Stored transports append it to the name of a queue after a '/'.
fn checked_group(group: String) -> Result<String> {
    let length = group.chars().count();
    if length == 0 || length > NAME_LEN_MAX || group.chars().any(|c| c.is_control() || c == '/') {
        return Err(Error::invalid(format!(
            "the group {group:?} must have 1 to {NAME_LEN_MAX} printable characters and no '/'"
        )));
    }
    Ok(group)
}
