//! Cursor move: an operator moves the cursor of a job. No occurrence disappears: those that are passed over
//! are in the history as skipped, and those the cursor goes back to are decided again.

use jiff::Timestamp;

use super::Process;
use super::scheduler::{Decision, firing, forget_skips, skipped};
use crate::model::{JobRecord, Retirement};
use crate::policy::{Plan, Skip};

/// Returns the decision that moves the cursor. Forward, the occurrences passed over are skipped and recorded, as
/// `skips`; back, they are decided again, on purpose.
pub(crate) fn move_cursor(
    process: &Process,
    record: &JobRecord,
    (cursor, skips): (Option<Timestamp>, Vec<Skip>),
    now: Timestamp,
) -> Decision {
    let mut after = record.clone();
    after.cursor = cursor;
    after.retired = cursor.is_none().then_some(Retirement::Finished);
    after.last_nominal = skips.last().map(|skip| skip.nominal).or(record.last_nominal);
    forget_skips(&mut after);
    let skipped = skipped(process, &record.job, &skips, now);
    let firing = firing(record, after, Vec::new(), skipped, now);
    Decision { firing, plan: Plan { skipped: skips, ..Plan::default() } }
}
