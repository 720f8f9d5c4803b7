//! Analysis: why a message does not run, what happened to each occurrence of a job, what runs next, what an outage
//! would do, and which failures the dead letters have in common. The types are results of [`Admin`](crate::Admin);
//! everything here only reads.

mod clock_change;
mod dead_groups;
mod fingerprint;
mod history;
mod ledger;
mod ledger_range;
mod outage;
mod passed_over;
mod upcoming;
mod walk;
mod why;
mod why_facts;

pub(crate) use clock_change::just_before;
pub use clock_change::{ClockChange, ScheduledTime, clock_changes};
pub(crate) use dead_groups::dead_groups;
pub use dead_groups::{DeadGroup, DeadGroups, dead_fingerprint};
pub(crate) use history::read_history;
pub(crate) use ledger::Ledger;
pub use ledger::{LedgerDecision, LedgerEntry};
pub use ledger_range::LedgerRange;
pub use outage::OutagePreview;
pub(crate) use outage::outage_preview;
pub(crate) use passed_over::passed_over;
pub use upcoming::{UpcomingOccurrence, UpcomingRun, UpcomingRuns};
pub(crate) use upcoming::{upcoming, upcoming_runs};
pub(crate) use walk::{Walk, walk, walk_some};
pub(crate) use why::WhyFacts;
pub use why::{KnownProcess, OtherProcesses, Why};
pub(crate) use why_facts::StoredFacts;
