//! At once: which failures are worth another try on the spot. One that happened by accident is; one that
//! took all the time there was, or asked for a time of its own, is not.

use super::AttemptEnd;

/// Whether a report is of a failure that may be tried again at once, where that is allowed at all.
pub fn is_tried_at_once(report: &AttemptEnd) -> bool {
    matches!(report, AttemptEnd::Failed { .. } | AttemptEnd::Panicked { .. })
}
