//! The builder, the start and the graceful end of a process. Misconfiguration fails in `build`,
//! never at three in the morning.

mod builder;
mod configure;
mod default_options;
mod hooked;
mod known;
mod registering;
mod running;
mod sending;
mod shared;
mod until;

pub use builder::Builder;
pub(crate) use builder::check_jobs;
pub(crate) use configure::schedules;
pub(crate) use registering::jobs;
pub use running::{Punctual, ShutdownReport};
#[cfg(feature = "signals")]
pub use until::signalled;
