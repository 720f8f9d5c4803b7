//! Leases: which process owns which messages until when, so that expired leases are found without scanning the
//! others.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::ended_rows::{TimeKey, first_key_at};
use super::records::{RecordSlot, StoredRecord};
use crate::model::ProcessId;
use crate::storage::{Notifier, Wakeup};

/// Leases of every owner, by their end and the message's id.
pub(super) struct Leases {
    owners: BTreeMap<ProcessId, BTreeMap<TimeKey, RecordSlot>>,
    heartbeats: BTreeMap<ProcessId, Timestamp>,
    notifier: Notifier,
    must_notify: bool,
}

impl Default for Leases {
    fn default() -> Self {
        let (notifier, _) = Wakeup::new();
        Self { owners: BTreeMap::new(), heartbeats: BTreeMap::new(), notifier, must_notify: false }
    }
}

impl Leases {
    /// Requests a notification of the owners: a running message is to be cancelled, which its owner sees when
    /// it extends the lease.
    pub(super) fn request_notification(&mut self) {
        self.must_notify = true;
    }

    pub(super) fn wakeup(&self) -> Wakeup {
        self.notifier.wakeup()
    }

    pub(super) fn take_notifier(&mut self) -> Option<Notifier> {
        std::mem::take(&mut self.must_notify).then(|| self.notifier.clone())
    }

    pub(super) fn insert(&mut self, stored: &StoredRecord) {
        if let Some(lease) = stored.record.lease {
            let owned = self.owners.entry(lease.owner).or_default();
            owned.insert((lease.until, stored.id()), stored.slot);
        }
    }

    pub(super) fn remove(&mut self, stored: &StoredRecord) {
        if let Some(lease) = stored.record.lease
            && let Some(owned) = self.owners.get_mut(&lease.owner)
        {
            owned.remove(&(lease.until, stored.id()));
            if owned.is_empty() {
                self.owners.remove(&lease.owner);
            }
        }
    }

    pub(super) fn heartbeat(&mut self, process: ProcessId, until: Timestamp, now: Timestamp) {
        let known = self.heartbeats.entry(process).or_insert(until);
        *known = if until > now { until.max(*known) } else { until };
    }

    /// Removes processes whose heartbeat ended before an instant and that own no message.
    pub(super) fn forget_silent(&mut self, before: Timestamp) {
        let owners = &self.owners;
        self.heartbeats.retain(|process, until| *until >= before || owners.contains_key(process));
    }

    /// Returns at most `limit` leases that may be taken over, by their end and id: those that ended before
    /// `now`, and all of an owner whose heartbeat has run out. For an owner without any heartbeat only the ends
    /// of its leases count.
    pub(super) fn lapsed(&self, limit: usize, now: Timestamp) -> Vec<RecordSlot> {
        let mut found: Vec<(TimeKey, RecordSlot)> = Vec::new();
        for (owner, owned) in &self.owners {
            let silent = self.is_silent(owner, now);
            let lapsed = owned.iter().take_while(|(key, _)| silent || **key < first_key_at(now));
            found.extend(lapsed.take(limit).map(|(key, slot)| (*key, *slot)));
        }
        found.sort_unstable();
        found.into_iter().take(limit).map(|(_, slot)| slot).collect()
    }

    /// Returns how many leases may be taken over.
    pub(super) fn lapsed_count(&self, now: Timestamp) -> usize {
        let counts = self.owners.iter().map(|(owner, owned)| {
            if self.is_silent(owner, now) {
                owned.len()
            } else {
                owned.range(..first_key_at(now)).count()
            }
        });
        counts.sum()
    }

    /// Returns the earliest end of a lease or of its owner's heartbeat.
    pub(super) fn next_expiry(&self) -> Option<Timestamp> {
        let ends = self.owners.iter().filter_map(|(owner, owned)| {
            let first = owned.first_key_value().map(|((until, _), _)| *until);
            first.into_iter().chain(self.heartbeats.get(owner).copied()).min()
        });
        ends.min()
    }

    fn is_silent(&self, owner: &ProcessId, now: Timestamp) -> bool {
        self.heartbeats.get(owner).is_some_and(|until| *until < now)
    }
}
