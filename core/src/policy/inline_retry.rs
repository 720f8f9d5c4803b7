//! Inline retry: decides from how an attempt ended whether the handler may be called again at once, in the same
//! delivery. An error or a panic may be an accident; after a timeout, or where the handler requested a delay,
//! an immediate call would not help.

use super::AttemptEnd;

/// Returns whether an attempt that ended this way may be retried inline, where inline retries are enabled.
pub(crate) fn allows_inline_retry(end: &AttemptEnd) -> bool {
    matches!(end, AttemptEnd::Failed { .. } | AttemptEnd::Panicked { .. })
}
