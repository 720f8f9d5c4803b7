//! Policies: pure decisions. Facts go in, what happens next comes out. Nothing here reads a clock, draws a
//! random number or calls a storage, so every rule can be tested as a table.

mod back_off;
mod breaker;
mod chain;
mod decide;
pub(crate) mod dedupe;
mod delay_place;
mod edit;
pub(crate) mod effective_options;
mod inline_retry;
mod layers;
mod no_handler;
mod outage;
mod overlap;
mod plan;
pub(crate) mod rate;
pub(crate) mod reconcile;
mod rescue;
mod timeout;
pub(crate) mod verdict;

pub(crate) use back_off::{PAUSE_MAX, backoff};
pub use breaker::{Breaker, Circuit};
pub(crate) use breaker::{BreakerDecision, BreakerSignal};
pub(crate) use chain::followers;
pub(crate) use decide::{JobDecision, decide};
pub(crate) use dedupe::{DedupeDecision, DedupeFacts, SameId, dedupe};
pub(crate) use delay_place::{DelayOptions, DelayPlace, delay_place, delay_unsupported};
pub use edit::{Edit, Field, PREVIEW_MAX, Preview};
pub(crate) use edit::{preview, reset, upcoming};
pub(crate) use effective_options::{EffectiveHandlerOptions, effective_options};
pub(crate) use inline_retry::allows_inline_retry;
pub use layers::{EffectiveLayer, Layer, layers};
pub(crate) use no_handler::put_off;
pub use outage::Outage;
pub(crate) use outage::outage;
pub(crate) use overlap::{admit, at_once_max};
pub(crate) use plan::{COUNT_MAX, Plan, SKIPS_LISTED_MAX};
pub use plan::{PlannedOccurrence, Skip};
pub(crate) use rate::{RateGrant, RateStarts, grant_starts};
pub(crate) use reconcile::{
    Declaration, DeclaredSet, Reconciliation, configured_schedule, cursor_after_pause, overridden,
    reconcile, retire_vanished,
};
pub(crate) use rescue::rescue;
pub(crate) use timeout::timeout;
pub(crate) use verdict::{
    AgainReason, AttemptDecision, AttemptFacts, Verdict, bounded, is_expired, judge,
};
pub use verdict::{AttemptEnd, NOTE_LEN_MAX};
