//! ETag of a job definition, for optimistic locking. It changes with any layer of the definition but not with runs,
//! because otherwise every edit of a busy job would conflict.

use std::collections::BTreeSet;

use axum::http::header::{ETAG, IF_MATCH};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use punctual::model::{JobRecord, Overrides};
use punctual::schedule::stable_hash;

use crate::problem::{ApiResult, Problem};

/// Returns the ETag of a job, in quotes.
pub(super) fn etag(record: &JobRecord) -> String {
    let overrides = Overrides { skips: BTreeSet::new(), ..record.overrides.clone() };
    let layers = (&record.declared, &record.configured, &overrides);
    let bytes = serde_json::to_vec(&layers).unwrap_or_default();
    format!("\"d{:016x}\"", stable_hash(&[&bytes]))
}

/// Returns the ETag header of a response.
pub(super) fn header(record: &JobRecord) -> HeaderMap {
    let value = HeaderValue::from_str(&etag(record)).ok();
    value.map(|value| (ETAG, value)).into_iter().collect()
}

/// Returns whether `If-Match` is absent or matches a definition. It may hold the ETag or the version, which also counts
/// runs, pauses and skips.
pub(super) fn matches(headers: &HeaderMap, record: &JobRecord) -> bool {
    let (tag, version) = (etag(record), format!("\"{}\"", record.version));
    let mut values = headers.get_all(IF_MATCH).iter().peekable();
    if values.peek().is_none() {
        return true;
    }
    let mut tags = values.flat_map(|value| value.to_str().unwrap_or_default().split(','));
    tags.any(|given| matches!(given.trim(), "*") || given.trim() == tag || given.trim() == version)
}

/// Fails when `If-Match` does not match a definition. The write compares once more.
pub(super) fn check(headers: &HeaderMap, record: &JobRecord) -> ApiResult<()> {
    if matches(headers, record) { Ok(()) } else { Err(changed(record)) }
}

/// Returns the problem for a definition that was changed concurrently.
pub(super) fn changed(record: &JobRecord) -> Problem {
    Problem::new(
        StatusCode::PRECONDITION_FAILED,
        format!(
            "the job {:?} was changed since the given ETag (it is now {}); read it again and repeat the change",
            record.job.name,
            etag(record)
        ),
    )
}
