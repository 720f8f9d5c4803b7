//! Punctual for people who write no Rust: jobs from a configuration, an HTTP API for everything a person
//! or a program may ask, workers in any language, and the dashboard.
//!
//! [`App`] is what every endpoint shares; [`router`] is the whole of HTTP on top of it, so that it can be
//! served, mounted in another application's router, or called in process without a socket, as the command
//! line does when it works on a storage directly.

mod api;
mod app;
mod audit;
mod caller;
mod extract;
mod fingerprint;
mod idempotency;
mod listen;
mod page;
mod problem;
pub mod queues;
mod redact;
mod router;
mod surroundings;
mod why;

pub use app::{App, Parts};
pub use audit::{Audit, Change, Entry};
pub use caller::{Caller, Role};
pub use listen::{Listening, listen};
pub use problem::Problem;
pub use redact::{HIDDEN, Redaction};
pub use router::router;
