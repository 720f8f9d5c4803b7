//! Rates: decides which claimed messages may start now. The others are released without spending an attempt,
//! each due when it may start.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::Process;
use crate::event::Event;
use crate::model::time::add;
use crate::model::{Key, Rate};
use crate::policy::RateGrant;
use crate::storage::{ClaimedMessage, RateRequest};

/// Delay of messages whose rate could not be read.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// A claimed message, and when it may start if that is not now.
pub(super) type RatedClaim = (ClaimedMessage, Option<Timestamp>);

/// Instants up to which the starts of each rate are planned by this worker. Messages that are delayed for the
/// first time are planned one after another, so that each returns once and not all of them at once.
#[derive(Default)]
pub(super) struct ClaimRates {
    planned_until: BTreeMap<Key, Timestamp>,
}

impl ClaimRates {
    /// Acquires starts once for each rate, and assigns them to the messages in their order.
    pub(super) async fn apply(
        &mut self,
        process: &Process,
        claimed: Vec<ClaimedMessage>,
        now: Timestamp,
    ) -> Vec<RatedClaim> {
        let mut requested: BTreeMap<Key, (Rate, u32)> = BTreeMap::new();
        for (name, rate) in claimed.iter().filter_map(rate_of) {
            requested.entry(name.clone()).or_insert((rate, 0)).1 += 1;
        }
        self.planned_until.retain(|_, until| *until > now);
        let mut budgets: BTreeMap<Key, RateBudget> = BTreeMap::new();
        for (name, (rate, requested)) in requested {
            let grant =
                acquire(process, RateRequest { name: name.clone(), rate, requested }, now).await;
            let next_at = grant.next_at;
            let planned = self.planned_until.get(&name).copied().unwrap_or(next_at).max(next_at);
            let step = rate.per / rate.count.max(1);
            budgets.insert(name, RateBudget { granted: grant.granted, next_at, planned, step });
        }
        let rated = claimed.into_iter().map(|one| {
            let budget = rate_of(&one).and_then(|(name, _)| budgets.get_mut(name));
            let next = budget.and_then(|budget| budget.take(one.due_at > one.message.due_at));
            (one, next)
        });
        let rated = rated.collect();
        self.planned_until.extend(budgets.into_iter().map(|(name, budget)| (name, budget.planned)));
        rated
    }

    /// Adds the starts that a concurrent claim has planned.
    pub(super) fn merge(&mut self, other: Self) {
        for (name, until) in other.planned_until {
            let planned = self.planned_until.entry(name).or_insert(until);
            *planned = until.max(*planned);
        }
    }
}

pub(super) async fn acquire(process: &Process, request: RateRequest, now: Timestamp) -> RateGrant {
    process.env.storage.acquire_rate(request, now).await.unwrap_or_else(|error| {
        let again_at = add(now, RETRY_DELAY);
        let (service, error) = ("rates".to_owned(), error.to_string());
        process.env.events.emit(Event::ServiceFailed { service, error, again_at });
        RateGrant { granted: 0, next_at: again_at }
    })
}

/// Returns whether a message has a rate.
pub(super) fn has_rate(claimed: &ClaimedMessage) -> bool {
    rate_of(claimed).is_some()
}

fn rate_of(claimed: &ClaimedMessage) -> Option<(&Key, Rate)> {
    let limit = claimed.message.limit()?;
    Some((&limit.name, limit.rate?))
}

/// Starts left of those granted, and when the next messages may start: those that have waited before as soon
/// as the rate allows, the others after everything that is planned.
struct RateBudget {
    granted: u32,
    next_at: Timestamp,
    planned: Timestamp,
    step: Duration,
}

impl RateBudget {
    /// Returns when the next message may start; `None` means now.
    fn take(&mut self, has_waited: bool) -> Option<Timestamp> {
        if self.granted > 0 {
            self.granted -= 1;
            return None;
        }
        let next = if has_waited { &mut self.next_at } else { &mut self.planned };
        let at = *next;
        *next = add(at, self.step);
        Some(at)
    }
}
