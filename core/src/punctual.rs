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
pub use lifecycle::{Punctual, ShutdownReport};
#[cfg(feature = "signals")]
pub use run::signalled;
