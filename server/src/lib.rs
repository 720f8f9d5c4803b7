//! Punctual for people who write no Rust: jobs from a configuration, an HTTP API for everything a person
//! or a program may ask, workers in any language, and the dashboard.
//!
//! [`App`] is what every endpoint shares; [`router`] is the whole of HTTP on top of it, so that it can be
//! served, mounted in another application's router, or called in process without a socket, as the command
//! line does when it works on a storage directly. [`dashboard`] is that router in one line for an application
//! that embeds Punctual.

mod alerts;
mod api;
mod app;
mod assembly;
mod audit;
mod auth;
mod background;
mod cached;
mod caller;
pub mod config;
mod dashboard;
mod extract;
mod file_limit;
mod fingerprint;
mod health;
mod idempotency;
mod listen;
mod live;
mod metrics;
mod mount;
mod moved;
mod node;
mod outgoing;
mod page;
mod problem;
mod pruner;
pub mod queues;
mod redact;
mod register;
mod request_limit;
mod router;
mod schedule_warnings;
mod secret;
mod shelf;
mod spec;
mod statuses;
mod surround;
mod surroundings;
mod targets;
#[cfg(feature = "otlp")]
mod telemetry;
mod template;
mod tls;
mod unhandled;
mod walk;
mod webhooks;
mod why;
mod wording;

pub use app::{App, Parts};
pub use assembly::{Assembly, Running, SOURCE};
pub use audit::{Audit, Change, Entry};
#[cfg(feature = "oidc")]
pub use auth::Oidc;
pub use auth::{Auth, AuthSettings, Authenticate, EVERY_QUEUE, Mode, Proxy, Scope};
pub use background::attend;
pub use caller::{Caller, Role};
pub use listen::{Listening, listen};
pub use metrics::Meters;
pub use mount::{Access, dashboard};
pub use moved::{MOVED_KINDS, MovedKind};
pub use node::Identity;
pub use outgoing::Outgoing;
pub use problem::Problem;
pub use redact::{HIDDEN, Redaction};
pub use router::router;
pub use schedule_warnings::cron_warnings;
pub use spec::{
    COMMAND_TOPIC, CommandTarget, FieldError, HTTP_TOPIC, HttpTarget, JobSpec, PUBLISH_TOPIC,
    PublishTarget, RetrySpec, Secret, Signature, Statuses, Target, Work,
};
pub use targets::{Guard, Purpose, TEST_TOPIC, Tools, Vault, sign};
pub use template::{Escape, Facts, Template};
pub use webhooks::{WEBHOOK_QUEUE, WEBHOOK_TOPIC, Webhooks};
