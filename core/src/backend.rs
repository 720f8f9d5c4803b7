//! Back-ends: the contracts of storages and transports with their records, for authors of back-ends. Applications
//! need none of it.
//!
//! - A storage implements [`Storage`](crate::Storage) of [`storage`], [`Inspect`](crate::Inspect) of
//!   [`inspect`](crate::inspect), [`Inbox`](crate::Inbox), and [`DocumentStore`](crate::DocumentStore) of [`documents`].
//!   What it stores is described in [`model`](crate::model), and the decisions it applies to an attempted message in
//!   [`policy`].
//! - A transport implements [`Transport`](crate::Transport) of [`transport`], which also has the kit that the brokers
//!   share. [`wire`] is the format of messages on a broker.
//! - [`lock`] is the contract of locks for jobs of several applications.

/// Documents: the contract for small records that are neither messages nor jobs.
pub mod documents {
    pub use crate::documents::*;
}

/// Inbox: the contract that recognizes deliveries which were already handled.
pub mod inbox {
    pub use crate::inbox::*;
}

/// Locks: the contract of locks that several applications share.
pub mod lock {
    pub use crate::lock::*;
}

/// Policy: the decisions that a storage is given or calls, and the options that are in force; pure.
pub mod policy {
    pub use crate::policy::dedupe::{DedupeDecision, DedupeFacts, SameId, dedupe};
    pub use crate::policy::effective_options::{EffectiveHandlerOptions, effective_options};
    pub use crate::policy::rate::{RateGrant, RateStarts, grant_starts};
    pub use crate::policy::reconcile::effective;
    pub use crate::policy::verdict::{AgainReason, Verdict};
}

/// Storage: the contract that stores messages and jobs and decides every race.
pub mod storage {
    pub use crate::storage::*;
}

/// Transport: the contract that carries messages between processes, and the kit that brokers share.
pub mod transport {
    pub use crate::transport::*;
}

/// Wire: the format of messages on a broker, our own envelope or `CloudEvents`.
pub mod wire {
    pub use crate::wire::*;
}
