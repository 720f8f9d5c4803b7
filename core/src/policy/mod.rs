//! Decisions, pure: what is known goes in, what happens next comes out. Nothing here reads a clock,
//! draws a random number or touches a storage, so every rule can be tested as a table.

mod at_once;
mod breaker;
mod chain;
mod edit;
mod effective_terms;
mod hold;
mod layers;
mod misfire;
mod outage;
mod overlap;
mod plan;
mod rate;
mod reconcile;
mod rescue;
mod retry;
mod spelling;
mod timeout;
mod verdict;

pub use at_once::is_tried_at_once;
pub use breaker::{Admits, Breaker, Circuit, Sign};
pub use chain::followers;
pub use edit::{Edit, Field, PREVIEW_MAX, Preview, preview, reset, upcoming};
pub use effective_terms::{EffectiveTerms, MessageKind, effective_terms};
pub use hold::{Hold, Means, cannot_wait, hold};
pub use layers::{Layer, Winner, layers};
pub use misfire::{
    CATCH_UP_LIMIT, CATCH_UP_MAX_DEFAULT, Misfire, MisfirePolicy, THRESHOLD_CHOSEN_DEFAULT,
    THRESHOLD_DEFAULT, Threshold, ThresholdOrigin,
};
pub(crate) use outage::is_unwanted;
pub use outage::{OUTAGE_MAX, Outage, outage};
pub(crate) use overlap::at_once_max;
pub use overlap::{Admission, Overlap, admit};
pub use plan::{COUNT_MAX, OCCURRENCES_PER_PLAN, Plan, Planned, SKIPS_LISTED_MAX, Skip, plan};
pub use rate::{Permitted, STARTS_MAX, Starts, permit};
pub use reconcile::{
    Declaration, DeclaredSet, Reconciled, configured_schedule, effective, overridden, reconcile,
    resumed, retire_vanished,
};
pub use rescue::rescue;
pub use retry::{Backoff, INTERVALS_MAX, Retry, RetryFacts};
pub use timeout::timeout;
pub use verdict::{
    Case, Judged, NO_HANDLER_BUDGET, NOTE_LENGTH_MAX, Report, Verdict, Why, bounded, is_expired,
    judge,
};
