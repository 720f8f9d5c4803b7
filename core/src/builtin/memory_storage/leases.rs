//! Who holds which messages until when, so that what lapsed is found without looking at the rest.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::by_end::{Place, first_at};
use super::records::{Slot, Stored};
use crate::model::ProcessId;
use crate::storage::{Notifier, Wakeup};

/// The leases of every owner, by their end and the message's id.
pub(super) struct Leases {
    owners: BTreeMap<ProcessId, BTreeMap<Place, Slot>>,
    beats: BTreeMap<ProcessId, Timestamp>,
    bell: Notifier,
    notified: bool,
}

impl Default for Leases {
    fn default() -> Self {
        let (bell, _) = Wakeup::new();
        Self { owners: BTreeMap::new(), beats: BTreeMap::new(), bell, notified: false }
    }
}

impl Leases {
    /// Somebody asked for a running message to be cancelled; its owner learns it from a renewal.
    pub(super) fn notify(&mut self) {
        self.notified = true;
    }

    pub(super) fn wakeup(&self) -> Wakeup {
        self.bell.wakeup()
    }

    pub(super) fn take_bell(&mut self) -> Option<Notifier> {
        std::mem::take(&mut self.notified).then(|| self.bell.clone())
    }

    pub(super) fn insert(&mut self, stored: &Stored) {
        if let Some(lease) = stored.record.lease {
            let owned = self.owners.entry(lease.owner).or_default();
            owned.insert((lease.until, stored.id()), stored.slot);
        }
    }

    pub(super) fn remove(&mut self, stored: &Stored) {
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
        let said = self.beats.entry(process).or_insert(until);
        *said = if until > now { until.max(*said) } else { until };
    }

    /// Forgets processes that went silent before an instant and hold nothing: nobody will ask
    /// about them again.
    pub(super) fn forget_silent(&mut self, before: Timestamp) {
        let owners = &self.owners;
        self.beats.retain(|process, until| *until >= before || owners.contains_key(process));
    }

    /// At most `limit` leases that may be taken over, by their end and id: those that ended before
    /// `now`, and all of an owner whose last beat has run out. An owner that never beat is judged by
    /// its leases alone.
    pub(super) fn lapsed(&self, limit: usize, now: Timestamp) -> Vec<Slot> {
        let mut found: Vec<(Place, Slot)> = Vec::new();
        for (owner, owned) in &self.owners {
            let silent = self.is_silent(owner, now);
            let lapsed = owned.iter().take_while(|(place, _)| silent || **place < first_at(now));
            found.extend(lapsed.take(limit).map(|(place, slot)| (*place, *slot)));
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
                owned.range(..first_at(now)).count()
            }
        });
        counts.sum()
    }

    /// Returns the earliest end of a lease or of its owner's heartbeat.
    pub(super) fn next_expiry(&self) -> Option<Timestamp> {
        let ends = self.owners.iter().filter_map(|(owner, owned)| {
            let first = owned.first_key_value().map(|((until, _), _)| *until);
            first.into_iter().chain(self.beats.get(owner).copied()).min()
        });
        ends.min()
    }

    fn is_silent(&self, owner: &ProcessId, now: Timestamp) -> bool {
        self.beats.get(owner).is_some_and(|until| *until < now)
    }
}
