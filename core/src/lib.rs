//! Messages now, messages later, and work on a schedule.

pub mod schedule;
