//! At once: which failures are worth another try on the spot. One that happened by accident is; one that
//! took all the time there was, or asked for a time of its own, is not.

use super::Report;

/// Whether a report is of a failure that may be tried again at once, where that is allowed at all.
pub fn is_tried_at_once(report: &Report) -> bool {
    matches!(report, Report::Failed { .. } | Report::Panicked { .. })
}
