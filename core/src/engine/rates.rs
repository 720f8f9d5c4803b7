//! Rates: which of the claimed messages may start now. Those that may not are given back without having
//! spent anything, each due when its turn may come.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::Process;
use crate::clock::add;
use crate::event::Event;
use crate::model::{Key, Rate};
use crate::policy::Permitted;
use crate::storage::{Claimed, Permit};

/// How long messages wait whose rate nobody could be asked for.
const UNKNOWN: Duration = Duration::from_secs(1);

/// A claimed message, and when it may start if not now.
pub(super) type Ruled = (Claimed, Option<Timestamp>);

/// Asks once for each name how many may start.
pub(super) async fn rule(process: &Process, claimed: Vec<Claimed>, now: Timestamp) -> Vec<Ruled> {
    let mut wanted: BTreeMap<Key, (Rate, u32)> = BTreeMap::new();
    for (name, rate) in claimed.iter().filter_map(rate_of) {
        wanted.entry(name.clone()).or_insert((rate, 0)).1 += 1;
    }
    if wanted.is_empty() {
        return claimed.into_iter().map(|one| (one, None)).collect();
    }
    let mut left: BTreeMap<Key, Left> = BTreeMap::new();
    for (name, (rate, wanted)) in wanted {
        let permit = Permit { name: name.clone(), rate, wanted };
        let permitted = process.storage.permit(permit, now).await.unwrap_or_else(|error| {
            let again_at = add(now, UNKNOWN);
            let (service, error) = ("rates".to_owned(), error.to_string());
            process.events.emit(Event::ServiceFailed { service, error, again_at });
            Permitted { granted: 0, next_at: again_at }
        });
        let step = rate.per / rate.count.max(1);
        left.insert(name, Left { granted: permitted.granted, next_at: permitted.next_at, step });
    }
    let ruled = claimed.into_iter().map(|one| {
        let next = rate_of(&one).and_then(|(name, _)| left.get_mut(name)).and_then(Left::take);
        (one, next)
    });
    ruled.collect()
}

fn rate_of(claimed: &Claimed) -> Option<(&Key, Rate)> {
    let limit = claimed.message.limit()?;
    Some((&limit.name, limit.rate?))
}

/// What is left of what was granted, and when the next ones may start.
struct Left {
    granted: u32,
    next_at: Timestamp,
    step: Duration,
}

impl Left {
    /// When the next one may start; nothing means now.
    fn take(&mut self) -> Option<Timestamp> {
        if self.granted > 0 {
            self.granted -= 1;
            return None;
        }
        let at = self.next_at;
        // One after the other, so that they do not all come back to ask at once.
        self.next_at = add(at, self.step);
        Some(at)
    }
}
