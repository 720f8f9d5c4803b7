//! Who carries a message, to whom, and how it gets there, said while it is made.

use super::{Publish, Sending};
use crate::error::{Error, Result};
use crate::model::{NAME_LEN_MAX, TransportName};

/// Who carries a draft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Via {
    /// Whoever the routes say.
    Routed,
    Storage,
    Transport(TransportName),
}

impl Publish {
    /// The transport that carries it; without one its route does, and without a route the storage.
    pub fn via(self, transport: impl AsRef<str>) -> Self {
        self.set(|draft| {
            draft.via = Via::Transport(TransportName::new(transport)?);
            Ok(())
        })
    }

    /// The storage carries it, whatever its route is.
    pub fn via_storage(self) -> Self {
        self.edit(|draft| draft.via = Via::Storage)
    }

    /// Only this group gets it, whoever else has subscribed. What the storage carries has one handler
    /// and no groups.
    pub fn group(self, group: impl Into<String>) -> Self {
        self.set(|draft| {
            draft.group = Some(checked_group(group.into())?);
            Ok(())
        })
    }

    /// How it gets to its transport; what the storage carries is stored anyway.
    pub fn sending(self, sending: Sending) -> Self {
        self.edit(|draft| draft.sending = Some(sending))
    }

    /// [`Sending::Direct`]: handed to its transport now.
    pub fn direct(self) -> Self {
        self.sending(Sending::Direct)
    }

    /// [`Sending::Durable`]: stored first, handed to its transport by the relay.
    pub fn durable(self) -> Self {
        self.sending(Sending::Durable)
    }

    /// [`Sending::Automatic`]: handed to its transport now, stored when that fails for a passing reason.
    pub fn automatic(self) -> Self {
        self.sending(Sending::Automatic)
    }
}

/// A group as every transport can carry it; the stored ones end the name of a line with it.
fn checked_group(group: String) -> Result<String> {
    let length = group.chars().count();
    if length == 0
        || length > NAME_LEN_MAX
        || group.chars().any(|letter| letter.is_control() || letter == '/')
    {
        return Err(Error::invalid(format!(
            "the group {group:?} must have 1 to {NAME_LEN_MAX} printable characters and no '/'"
        )));
    }
    Ok(group)
}
