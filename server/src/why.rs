//! Why: the explanation of the state of a message in the API.

use serde::Serialize;
use utoipa::ToSchema;

/// Explanation of the state of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Why {
    /// One of `running`, `waiting_until`, `ready`, `no_worker`, `no_handler`, `queue_paused`,
    /// `job_paused`, `limit_reached`, `waits_for_key`, `waits_for_batch`, `rate_limited`, `circuit_open`,
    /// `retrying`, `stale`, `done`, `dead`, `cancelled`.
    word: &'static str,
    /// The explanation in a sentence, with the fix if there is one.
    sentence: String,
    /// Further details.
    details: Vec<String>,
}

impl From<punctual::analysis::Why> for Why {
    fn from(why: punctual::analysis::Why) -> Self {
        let punctual::analysis::Why { word, sentence, details } = why;
        Self { word, sentence, details }
    }
}
