//! Rates: the latest starts of each name. A name whose starts count no more is forgotten now and then.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::model::Key;
use crate::policy::{RateGrant, RateStarts, permit};
use crate::storage::RateRequest;

/// How many names are kept before those that are not needed are forgotten.
const NAMES_MAX: usize = 1_024;

/// The latest starts of each name, and until when they count.
#[derive(Default)]
pub(super) struct Rates {
    names: BTreeMap<Key, (RateStarts, Option<Timestamp>)>,
    forget_at: usize,
}

impl Rates {
    pub(super) fn permit(&mut self, wanted: RateRequest, now: Timestamp) -> RateGrant {
        let (starts, used_until) = self.names.entry(wanted.name).or_default();
        let (permitted, after) = permit(wanted.rate, starts, wanted.wanted, now);
        *used_until = after.used_until(wanted.rate);
        *starts = after;
        if self.names.len() > NAMES_MAX.max(self.forget_at) {
            self.names.retain(|_, (_, until)| until.is_some_and(|until| until > now));
            self.forget_at = self.names.len() * 2;
        }
        permitted
    }
}
