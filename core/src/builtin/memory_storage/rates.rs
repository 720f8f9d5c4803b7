//! Rates: the latest starts of each name. Names whose starts no longer count are removed at intervals.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::model::Key;
use crate::policy::{RateGrant, RateStarts, grant_starts};
use crate::storage::RateRequest;

/// Number of names above which unneeded ones are removed.
const NAMES_MAX: usize = 1_024;

/// Latest starts of each name, and until when they count.
#[derive(Default)]
pub(super) struct Rates {
    names: BTreeMap<Key, (RateStarts, Option<Timestamp>)>,
    forget_at: usize,
}

impl Rates {
    pub(super) fn acquire(&mut self, request: RateRequest, now: Timestamp) -> RateGrant {
        let (starts, used_until) = self.names.entry(request.name).or_default();
        let (grant, after) = grant_starts(request.rate, starts, request.requested, now);
        *used_until = after.used_until(request.rate);
        *starts = after;
        if self.names.len() > NAMES_MAX.max(self.forget_at) {
            self.names.retain(|_, (_, until)| until.is_some_and(|until| until > now));
            self.forget_at = self.names.len() * 2;
        }
        grant
    }
}
