//! The tag of a job's definition. An edit may say which one it has seen, so that two people do not
//! overwrite each other. It changes with the definition in any of its layers, and not when the job merely
//! runs, because then no edit of a busy job could ever be made.

use std::collections::BTreeSet;

use axum::http::header::{ETAG, IF_MATCH};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use punctual::model::{JobRecord, Overrides};
use punctual::schedule::stable_hash;

use crate::problem::{Answer, Problem};

/// The tag of a job, in quotes.
pub(super) fn tag(record: &JobRecord) -> String {
    let overrides = Overrides { skips: BTreeSet::new(), ..record.overrides.clone() };
    let layers = (&record.declared, &record.configured, &overrides);
    let bytes = serde_json::to_vec(&layers).unwrap_or_default();
    format!("\"d{:016x}\"", stable_hash(&[&bytes]))
}

/// The tag as a header of the answer.
pub(super) fn header(record: &JobRecord) -> HeaderMap {
    let value = HeaderValue::from_str(&tag(record)).ok();
    value.map(|value| (ETAG, value)).into_iter().collect()
}

/// Whether a definition is the one the caller has seen, or they did not say. Besides the tag the version is
/// taken, which also counts runs, pauses and skips.
pub(super) fn matches(headers: &HeaderMap, record: &JobRecord) -> bool {
    let (tag, version) = (tag(record), format!("\"{}\"", record.version));
    let mut seen = headers.get_all(IF_MATCH).iter().peekable();
    if seen.peek().is_none() {
        return true;
    }
    let mut tags = seen.flat_map(|value| value.to_str().unwrap_or_default().split(','));
    tags.any(|seen| matches!(seen.trim(), "*") || seen.trim() == tag || seen.trim() == version)
}

/// Refuses an edit of a definition that is not the one the caller has seen. The write compares once more.
pub(super) fn check(headers: &HeaderMap, record: &JobRecord) -> Answer<()> {
    if matches(headers, record) { Ok(()) } else { Err(changed(record)) }
}

/// Somebody was faster.
pub(super) fn changed(record: &JobRecord) -> Problem {
    Problem::new(
        StatusCode::PRECONDITION_FAILED,
        format!(
            "the job {:?} was changed since you looked (it is now {}); read it again and decide anew",
            record.job.name,
            tag(record)
        ),
    )
}
