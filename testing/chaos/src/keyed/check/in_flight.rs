//! Refusals of a key as in flight: each needs a proven lease, at most [`IN_FLIGHT_MAX_MS`] old.
//!
//! The age is the time from the last write of a lease that began before the end of the refused request, until the
//! start of this request. The refusal was decided later than that, so a larger age is a violation for certain. Only a
//! proven write begins a new age; requests without a response do not.
//!
//! A server also refuses a key because of its own request, which it knows without a lease. This explains a refusal only
//! while that request writes its lease, or after a pause in which it could not renew it, and only for
//! [`OWN_REQUEST_MS`].

use std::collections::BTreeMap;

use super::{KeyHistory, KeyedCheckResult, RequestAttempt, RequestResult};

/// Largest age of a lease because of which a request is refused, in milliseconds: a lease of 10 s, and reserve for a
/// busy machine.
const IN_FLIGHT_MAX_MS: u64 = 12_000;
/// Time in which a server writes the lease of its own request, in milliseconds: a first one, or after a pause.
const OWN_REQUEST_MS: u64 = 2_000;
/// Age from which a refused key waits for the end of a lease and not for a running request, in milliseconds.
const LEASE_WAIT_MS: u64 = 5_000;

/// Write of a lease of a key: its first one, a renewal or a takeover.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyLease {
    /// Start of the write, in milliseconds since the start of the run.
    pub at_ms: u64,
    /// Server that owns the lease.
    pub server: String,
    /// Whether the write is known to be stored.
    pub is_proven: bool,
}

/// Server of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerFacts {
    /// Port of the server.
    pub port: u16,
    /// Ends of its pauses, in milliseconds since the start of the run; in a pause it could not renew a lease.
    pub resumed_ms: Vec<u64>,
}

/// Facts about the leases of a run.
#[derive(Clone, Debug, Default)]
pub struct LeaseFacts {
    /// Leases of each key, in the order of their writes.
    pub leases: BTreeMap<String, Vec<KeyLease>>,
    /// Servers by name.
    pub servers: BTreeMap<String, ServerFacts>,
}

impl LeaseFacts {
    fn leases_of(&self, key: &str) -> &[KeyLease] {
        self.leases.get(key).map_or(&[], Vec::as_slice)
    }

    /// Returns whether a server refused a request because of its own one: that of this lease, if it was writing the
    /// lease, or was resumed, while the refused request waited or shortly before.
    fn explains_by_own_request(&self, refused: &RequestAttempt, lease: &KeyLease) -> bool {
        let is_near = |at_ms: u64| {
            at_ms <= refused.to_ms && refused.from_ms <= at_ms.saturating_add(OWN_REQUEST_MS)
        };
        let owner = self.servers.get(&lease.server).filter(|owner| owner.port == refused.port);
        owner.is_some_and(|owner| {
            is_near(lease.at_ms)
                || (lease.at_ms <= refused.to_ms && owner.resumed_ms.iter().any(|at| is_near(*at)))
        })
    }
}

/// Checks the refusals of one key.
pub(super) fn verify(
    history: &KeyHistory,
    facts: &LeaseFacts,
    check_result: &mut KeyedCheckResult,
) {
    let (key, leases) = (&history.key, facts.leases_of(&history.key));
    let proven = || leases.iter().filter(|lease| lease.is_proven);
    let of =
        |result: RequestResult| history.attempts.iter().filter(move |one| one.result == result);
    let mut longest = 0;
    for refused in of(RequestResult::InFlight) {
        let lease = proven().rfind(|lease| lease.at_ms <= refused.to_ms);
        let age = lease.map(|lease| refused.from_ms.saturating_sub(lease.at_ms));
        match age {
            Some(age) if age <= IN_FLIGHT_MAX_MS => longest = longest.max(age),
            _ if leases.iter().any(|lease| facts.explains_by_own_request(refused, lease)) => {
                check_result.own_request += 1;
            }
            Some(age) => longest = longest.max(age),
            None => {
                let what = format!("{key} was refused as in flight without a lease");
                check_result.violations.push(what);
            }
        }
    }
    let is_answered =
        history.attempts.iter().any(|one| matches!(one.result, RequestResult::Answered { .. }));
    if is_answered && proven().next().is_none() {
        check_result.violations.push(format!("{key} was answered without a lease"));
    }
    if longest > IN_FLIGHT_MAX_MS {
        let what = format!("{key} was refused as in flight {longest} ms after its last lease");
        check_result.violations.push(what);
    }
    check_result.leases += proven().count();
    check_result.refused += usize::from(of(RequestResult::InFlight).next().is_some());
    check_result.waited += usize::from(longest > LEASE_WAIT_MS);
    check_result.in_flight_ms = check_result.in_flight_ms.max(longest);
    check_result.refused_ms = check_result.refused_ms.max(longest_refused(&history.attempts));
}

/// Returns the longest time in which all responses were refusals, whatever number of leases it contains.
fn longest_refused(attempts: &[RequestAttempt]) -> u64 {
    let (mut longest, mut since) = (0, None);
    for one in attempts {
        match one.result {
            RequestResult::InFlight => {
                let since = *since.get_or_insert(one.from_ms);
                longest = longest.max(one.to_ms.saturating_sub(since));
            }
            RequestResult::NoResponse | RequestResult::NotSent => {}
            _ => since = None,
        }
    }
    longest
}
