//! Roles: the services that a process runs, so that some processes only schedule, others only work, and a
//! test runs none of them.

use crate::options::Options;

/// Services that a process runs; all of them by default. Every process can publish, administer and reply,
/// whatever its roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // four independent switches
pub struct Roles {
    /// Fires jobs, and reconciles the jobs its builder declares with the stored ones.
    pub scheduler: bool,
    /// Runs handlers, of its queues and of its subscriptions.
    pub worker: bool,
    /// Sends due messages to transports.
    pub relay: bool,
    /// Frees messages of processes that are gone, and deletes what is older than the retention. At least one
    /// process of a storage needs this role.
    pub maintenance: bool,
}

impl Roles {
    /// Every service.
    pub const ALL: Self = Self { scheduler: true, worker: true, relay: true, maintenance: true };
    /// No service: a process that only publishes, administers and replies.
    pub const NONE: Self =
        Self { scheduler: false, worker: false, relay: false, maintenance: false };

    /// Sets the options of these roles.
    pub(crate) fn apply(self, options: &mut Options) {
        let Self { scheduler, worker, relay, maintenance } = self;
        options.scheduling = scheduler;
        options.handling = worker;
        options.relaying = relay;
        options.maintenance = maintenance;
    }
}

impl Default for Roles {
    fn default() -> Self {
        Self::ALL
    }
}
