//! The builder, the start and the graceful end of a process. Misconfiguration fails in `build`,
//! never at three in the morning.

mod builder;
mod registering;
mod running;
mod shared;

pub use builder::Builder;
pub use running::{Punctual, Stopped};
