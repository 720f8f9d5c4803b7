//! Process: its builder, its start and its graceful shutdown. `build` reports errors of the configuration, so that
//! they do not appear at run time.

mod builder;
mod configure;
mod default_options;
mod hooks;
mod introspection;
mod lifecycle;
mod outbound;
mod registration;
mod resources;
mod run;

pub use builder::Builder;
pub(crate) use builder::check_jobs;
pub(crate) use configure::schedules;
pub use lifecycle::{Punctual, ShutdownReport};
pub(crate) use registration::jobs;
#[cfg(feature = "signals")]
pub use run::signalled;
