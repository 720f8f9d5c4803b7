//! Turns: when each service last had a turn, and with what result. Health is derived from it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;

/// The last turns of the services of a process.
#[derive(Default)]
pub(crate) struct Turns {
    services: Mutex<BTreeMap<String, LastTurn>>,
}

/// Result of the last turns of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastTurn {
    /// When a turn last succeeded.
    pub succeeded_at: Option<Timestamp>,
    /// Error of the latest turn, if one has failed since then.
    pub error: Option<String>,
}

impl Turns {
    pub(crate) fn succeeded(&self, service: &str, now: Timestamp) {
        let turn = LastTurn { succeeded_at: Some(now), error: None };
        let mut services = self.services.lock().unwrap_or_else(PoisonError::into_inner);
        match services.get_mut(service) {
            Some(last) => *last = turn,
            None => {
                services.insert(service.to_owned(), turn);
            }
        }
    }

    pub(crate) fn failed(&self, service: &str, error: String) {
        let mut services = self.services.lock().unwrap_or_else(PoisonError::into_inner);
        services.entry(service.to_owned()).or_default().error = Some(error);
    }

    pub(crate) fn all(&self) -> BTreeMap<String, LastTurn> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
