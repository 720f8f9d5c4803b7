//! Policies: pure decisions. Facts go in, what happens next comes out. Nothing here reads a clock, draws a
//! random number or calls a storage, so every rule can be tested as a table.

mod back_off;
mod breaker;
mod chain;
mod decide;
mod dedupe;
mod delay_place;
mod edit;
mod effective_options;
mod inline_retry;
mod layers;
mod no_handler;
mod outage;
mod overlap;
mod plan;
mod rate;
mod reconcile;
mod rescue;
mod timeout;
mod verdict;

pub(crate) use back_off::{PAUSE_MAX, backoff};
pub use breaker::{Breaker, BreakerDecision, BreakerSignal, Circuit};
pub use chain::followers;
pub(crate) use decide::{JobDecision, decide};
pub use dedupe::{DedupeDecision, DedupeFacts, SameId, dedupe};
pub use delay_place::{DelayOptions, DelayPlace, delay_place, delay_unsupported};
pub use edit::{Edit, Field, PREVIEW_MAX, Preview, preview, reset, upcoming};
pub use effective_options::{EffectiveHandlerOptions, effective_options};
pub use inline_retry::allows_inline_retry;
pub use layers::{Layer, Winner, layers};
pub use no_handler::NO_HANDLER_BUDGET;
pub(crate) use no_handler::put_off;
pub use outage::{OUTAGE_MAX, Outage, outage};
pub(crate) use overlap::at_once_max;
pub use overlap::{OverlapDecision, admit};
pub use plan::{
    COUNT_MAX, OCCURRENCES_PER_PLAN, Plan, PlannedOccurrence, SKIPS_LISTED_MAX, Skip, plan,
};
pub use rate::{RateGrant, RateStarts, STARTS_MAX, permit};
pub use reconcile::{
    Declaration, DeclaredSet, Reconciliation, configured_schedule, cursor_after_pause, effective,
    overridden, reconcile, retire_vanished,
};
pub use rescue::rescue;
pub use timeout::timeout;
pub use verdict::{
    AgainReason, AttemptDecision, AttemptEnd, AttemptFacts, NOTE_LEN_MAX, Verdict, bounded,
    is_expired, judge,
};
