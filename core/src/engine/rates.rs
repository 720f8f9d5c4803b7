//! Rates: which of the claimed messages may start now. Those that may not are given back without having
//! spent anything, each due when its turn may come.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::Process;
use crate::clock::add;
use crate::event::Event;
use crate::model::{Key, Rate};
use crate::policy::RateGrant;
use crate::storage::{ClaimedMessage, RateRequest};

/// How long messages wait whose rate nobody could be asked for.
const UNKNOWN: Duration = Duration::from_secs(1);

/// A claimed message, and when it may start if not now.
pub(super) type Ruled = (ClaimedMessage, Option<Timestamp>);

/// Up to when the starts of each name are planned, as far as this worker knows. Messages that come for
/// the first time are put behind each other, so that each comes back once and not all of them at once.
#[derive(Default)]
pub(super) struct Rates {
    planned_until: BTreeMap<Key, Timestamp>,
}

impl Rates {
    /// Asks once for each name how many may start.
    pub(super) async fn rule(
        &mut self,
        process: &Process,
        claimed: Vec<ClaimedMessage>,
        now: Timestamp,
    ) -> Vec<Ruled> {
        let mut wanted: BTreeMap<Key, (Rate, u32)> = BTreeMap::new();
        for (name, rate) in claimed.iter().filter_map(rate_of) {
            wanted.entry(name.clone()).or_insert((rate, 0)).1 += 1;
        }
        self.planned_until.retain(|_, until| *until > now);
        let mut left: BTreeMap<Key, Left> = BTreeMap::new();
        for (name, (rate, wanted)) in wanted {
            let permitted =
                ask(process, RateRequest { name: name.clone(), rate, wanted }, now).await;
            let soon = permitted.next_at;
            let planned = self.planned_until.get(&name).copied().unwrap_or(soon).max(soon);
            let step = rate.per / rate.count.max(1);
            left.insert(name, Left { granted: permitted.granted, soon, planned, step });
        }
        let ruled = claimed.into_iter().map(|one| {
            let left = rate_of(&one).and_then(|(name, _)| left.get_mut(name));
            let next = left.and_then(|left| left.take(one.due_at > one.message.due_at));
            (one, next)
        });
        let ruled = ruled.collect();
        self.planned_until.extend(left.into_iter().map(|(name, left)| (name, left.planned)));
        ruled
    }

    /// Adds what somebody else has planned meanwhile.
    pub(super) fn merge(&mut self, other: Self) {
        for (name, until) in other.planned_until {
            let planned = self.planned_until.entry(name).or_insert(until);
            *planned = until.max(*planned);
        }
    }
}

pub(super) async fn ask(process: &Process, permit: RateRequest, now: Timestamp) -> RateGrant {
    process.storage.acquire_rate(permit, now).await.unwrap_or_else(|error| {
        let again_at = add(now, UNKNOWN);
        let (service, error) = ("rates".to_owned(), error.to_string());
        process.events.emit(Event::ServiceFailed { service, error, again_at });
        RateGrant { granted: 0, next_at: again_at }
    })
}

/// Whether a message may have to wait for its rate.
pub(super) fn has_rate(claimed: &ClaimedMessage) -> bool {
    rate_of(claimed).is_some()
}

fn rate_of(claimed: &ClaimedMessage) -> Option<(&Key, Rate)> {
    let limit = claimed.message.limit()?;
    Some((&limit.name, limit.rate?))
}

/// What is left of what was granted, and when the next ones may start: those that have waited before
/// soon, the others behind everything that is planned.
struct Left {
    granted: u32,
    soon: Timestamp,
    planned: Timestamp,
    step: Duration,
}

impl Left {
    /// When the next one may start; nothing means now.
    fn take(&mut self, has_waited: bool) -> Option<Timestamp> {
        if self.granted > 0 {
            self.granted -= 1;
            return None;
        }
        let place = if has_waited { &mut self.soon } else { &mut self.planned };
        let at = *place;
        *place = add(at, self.step);
        Some(at)
    }
}
