//! Refused logins in the audit trail: the first for a name from an address is an entry, and those that follow
//! within a minute are one entry with their number. Only a bounded number of names and addresses is distinguished
//! per minute; the rest share one entry, so that a flood of guesses does not fill the trail.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use punctual::Result;
use punctual::clock::between;

use super::{Audit, Change};
use crate::caller::{Caller, Role};

/// How long refusals are counted before they are written.
const SPAN: Duration = Duration::from_secs(60);
/// Largest number of pairs of name and address that are distinguished in a span.
const DISTINCT_MAX: usize = 30;
/// Largest number of characters of a name that are written.
const NAME_LEN_MAX: usize = 100;
/// Action of the entries.
const REFUSE: &str = "session.refuse";
/// Caller of the entries, since a refused caller is unknown.
const WHO: &str = "unknown";

/// Refusals that are not written to the trail yet.
#[derive(Default)]
pub(super) struct Refusals(Mutex<RefusalCounts>);

#[derive(Default)]
struct RefusalCounts {
    /// When the first refusal was counted.
    since: Option<Timestamp>,
    by_pair: BTreeMap<(String, Option<IpAddr>), u64>,
    others: u64,
}

impl Refusals {
    /// Counts a refusal; returns whether it is written as an entry of its own.
    fn count(&self, name: &str, from: Option<IpAddr>, now: Timestamp) -> bool {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counted.since.get_or_insert(now);
        let is_full = counted.by_pair.len() >= DISTINCT_MAX;
        let key = (name.to_owned(), from);
        if let Some(count) = counted.by_pair.get_mut(&key) {
            *count += 1;
            return false;
        }
        if is_full {
            counted.others += 1;
            return false;
        }
        counted.by_pair.insert(key, 0);
        true
    }

    /// Returns and resets the counts when the span is over, or always with `all`.
    fn take(&self, now: Timestamp, all: bool) -> Option<(Timestamp, RefusalCounts)> {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let since = counted.since?;
        let is_over = all || since > now || between(since, now) >= SPAN;
        is_over.then(|| (since, std::mem::take(&mut *counted)))
    }
}

impl Audit {
    /// Records a refused login, immediately or together with others. A failure to write is only logged.
    pub(crate) async fn refused(&self, name: &str, from: Option<IpAddr>, reason: &str) {
        let name: String = name.chars().take(NAME_LEN_MAX).collect();
        if !self.refusals.count(&name, from, self.clock.now()) {
            return;
        }
        let change = Change::new(REFUSE, &name).because(reason);
        if let Err(error) = self.note(&caller(from), change).await {
            tracing::warn!(%error, name, ?from, "a refused login was not written to the audit trail");
        }
    }

    /// Writes the refusals counted in the last span; with `all` also those of the current one.
    pub(crate) async fn write_refused(&self, all: bool) -> Result<()> {
        let Some((since, counted)) = self.refusals.take(self.clock.now(), all) else {
            return Ok(());
        };
        for ((name, from), count) in counted.by_pair.into_iter().filter(|(_, count)| *count > 0) {
            let reason = format!("{count} more since {since}");
            self.note(&caller(from), Change::new(REFUSE, name).because(reason)).await?;
        }
        if counted.others > 0 {
            let reason =
                format!("{} for other names or from other addresses since {since}", counted.others);
            self.note(&caller(None), Change::new(REFUSE, "others").because(reason)).await?;
        }
        Ok(())
    }
}

fn caller(from: Option<IpAddr>) -> Caller {
    Caller { from, ..Caller::new(WHO, Role::Guest) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use punctual::{ManualClock, MemoryStorage};

    use super::*;

    // Finding F13: refusals are written, and a flood of them does not fill the trail.
    // spec: C-6
    #[tokio::test]
    async fn a_flood_of_refusals_is_a_bounded_number_of_entries() {
        let clock = Arc::new(ManualClock::new(Timestamp::UNIX_EPOCH));
        let storage = Arc::new(MemoryStorage::new(clock.clone()));
        let audit = Audit::new(storage, clock.clone());
        let from = Some(IpAddr::from([192, 0, 2, 7]));
        for _ in 0..500 {
            audit.refused("ada", from, "wrong").await;
        }
        for number in 0..500 {
            audit.refused(&format!("user{number}"), from, "wrong").await;
        }
        assert_eq!(audit.list(None, 100).await.unwrap().len(), DISTINCT_MAX);
        audit.write_refused(false).await.unwrap();
        assert_eq!(audit.list(None, 100).await.unwrap().len(), DISTINCT_MAX, "not yet");
        clock.advance(SPAN);
        audit.write_refused(false).await.unwrap();
        let entries = audit.list(None, 100).await.unwrap();
        assert_eq!(entries.len(), DISTINCT_MAX + 2);
        let texts: Vec<(&str, &str)> = entries[..2]
            .iter()
            .map(|entry| (entry.target.as_str(), entry.reason.as_deref().unwrap_or_default()))
            .collect();
        assert_eq!(texts[0].0, "others");
        assert!(texts[0].1.starts_with("471 for other names"), "{texts:?}");
        assert_eq!(texts[1].0, "ada");
        assert!(texts[1].1.starts_with("499 more since"), "{texts:?}");
        assert_eq!(entries[1].from.as_deref(), Some("192.0.2.7"));
        audit.write_refused(true).await.unwrap();
        assert_eq!(audit.list(None, 100).await.unwrap().len(), entries.len(), "nothing twice");
    }
}
