//! Range of a ledger: its instants, by default around now.

use jiff::Timestamp;

use super::clock_change::just_after;
use super::upcoming::occurrences_from;
use super::walk::Walk;
use crate::error::{Error, Result};
use crate::model::JobRecord;

/// Default number of occurrences of a page.
const LIMIT_DEFAULT: usize = 100;

/// Range of a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerRange {
    /// Start of the range. By default three quarters of the limit are in the past.
    pub from: Option<Timestamp>,
    /// End of the range, inclusive. By default a quarter of the limit is in the future.
    pub to: Option<Timestamp>,
    /// Last occurrence of the page before; `None` for the first page.
    pub after: Option<Timestamp>,
    /// Largest number of occurrences, 1 to 1000. Default 100.
    pub limit: usize,
}

impl Default for LedgerRange {
    fn default() -> Self {
        Self { from: None, to: None, after: None, limit: LIMIT_DEFAULT }
    }
}

impl LedgerRange {
    /// Returns the first and the last instant of the range; fails when it is empty.
    pub(crate) fn bounds(
        &self,
        walk: &Walk,
        record: &JobRecord,
        now: Timestamp,
    ) -> Result<(Timestamp, Timestamp)> {
        let (schedule, limit) = (&record.job.schedule, self.limit);
        let upcoming = (limit / 4).max(1);
        let to = self.to.unwrap_or_else(|| {
            occurrences_from(walk, record, now).take(upcoming).last().map_or(now, |(last, _)| last)
        });
        let default_from = || {
            let end = to.min(now);
            walk.before(schedule, end).take(limit - limit / 4).last().unwrap_or(end)
        };
        let from = self.from.unwrap_or_else(default_from);
        if from > to {
            return Err(Error::invalid(format!(
                "the range is empty: {from} is later than `to` ({to}); swap them, or leave one out"
            )));
        }
        Ok((self.after.map_or(from, |after| just_after(after).max(from)), to))
    }
}
