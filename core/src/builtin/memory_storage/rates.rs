//! Rates: until when each name has used its own up. A name that has not is forgotten now and then.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::model::Key;
use crate::policy::{Permitted, permit};
use crate::storage::Permit;

/// How many names are kept before those that are not needed are forgotten.
const NAMES_MAX: usize = 1_024;

/// Until when each name has used its rate up.
#[derive(Default)]
pub(super) struct Rates {
    used_until: BTreeMap<Key, Timestamp>,
    forget_at: usize,
}

impl Rates {
    pub(super) fn permit(&mut self, wanted: Permit, now: Timestamp) -> Permitted {
        let known = self.used_until.get(&wanted.name).copied();
        let (permitted, used_until) = permit(wanted.rate, known, wanted.wanted, now);
        self.used_until.insert(wanted.name, used_until);
        if self.used_until.len() > NAMES_MAX.max(self.forget_at) {
            self.used_until.retain(|_, until| *until > now);
            self.forget_at = self.used_until.len() * 2;
        }
        permitted
    }
}
