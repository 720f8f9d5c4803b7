//! Roles: which of the services a process runs, so that some processes only schedule, others only work,
//! and a test runs none of them.

use super::Options;

/// Which services a process runs; all of them unless told otherwise. Whatever it is, it publishes,
/// administers and answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // four switches, each by itself
pub struct Roles {
    /// It fires jobs, and brings what its builder declares together with what is stored.
    pub scheduler: bool,
    /// It runs handlers: of its queues and of its subscriptions.
    pub worker: bool,
    /// It hands due messages to transports.
    pub relay: bool,
    /// It frees what was left behind by processes that are gone, and deletes what retention no longer
    /// keeps. At least one process of a storage has to.
    pub upkeep: bool,
}

impl Roles {
    /// Every service.
    pub const ALL: Self = Self { scheduler: true, worker: true, relay: true, upkeep: true };
    /// None: a process that only publishes, administers and answers.
    pub const NONE: Self = Self { scheduler: false, worker: false, relay: false, upkeep: false };

    /// The options that say the same.
    pub(crate) fn apply(self, options: &mut Options) {
        let Self { scheduler, worker, relay, upkeep } = self;
        options.scheduling = scheduler;
        options.handling = worker;
        options.relaying = relay;
        options.upkeep = upkeep;
    }
}

impl Default for Roles {
    fn default() -> Self {
        Self::ALL
    }
}
