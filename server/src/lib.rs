//! Punctual as a server: jobs from a configuration, an HTTP API, HTTP workers in any language, and the dashboard.
//!
//! [`App`] is the state shared by every endpoint; [`router`] is the whole HTTP interface on top of it, which can
//! be served, mounted in the router of another application, or called in process without a socket, as the command
//! line does when it works on a storage directly. [`dashboard`] returns that router in one line for an
//! application that embeds Punctual.

mod alerts;
mod api;
mod app;
mod assembly;
mod audit;
mod auth;
mod background;
mod cache;
mod caller;
pub mod config;
mod dashboard;
mod document_store;
mod extract;
mod file_limit;
mod health;
mod http_layers;
mod idempotency;
mod listen;
mod live;
mod metrics;
mod mount;
mod node;
mod outgoing;
mod page;
mod problem;
mod process_registry;
mod pruner;
pub mod queues;
mod redact;
mod redacted_inspect;
mod request_limit;
mod router;
mod schedule_warnings;
mod secret;
mod spec;
mod statuses;
mod storage_transfer;
mod targets;
#[cfg(feature = "otlp")]
mod telemetry;
mod template;
mod tls;
mod unhandled;
mod webhooks;
mod why;
mod why_facts;
mod wording;

pub use app::{App, AppParts};
pub use assembly::{Assembly, RunningServer, SOURCE};
pub use audit::{Audit, AuditEntry, Change};
#[cfg(feature = "oidc")]
pub use auth::Oidc;
pub use auth::{Auth, AuthSettings, Authenticate, EVERY_QUEUE, Mode, Proxy, Scope};
pub use background::run_background;
pub use caller::{Caller, Role};
pub use listen::{BoundListener, listen};
pub use metrics::Meters;
pub use mount::{Access, dashboard};
pub use node::Identity;
pub use outgoing::OutgoingCalls;
pub use problem::Problem;
pub use redact::{HIDDEN, Redaction};
pub use router::router;
pub use schedule_warnings::cron_warnings;
pub use spec::{
    COMMAND_TOPIC, CommandTarget, FieldError, HTTP_TOPIC, HttpTarget, JobSpec, PUBLISH_TOPIC,
    PublishTarget, RetrySpec, Secret, Signature, Statuses, Target, Work,
};
pub use storage_transfer::{TRANSFER_KINDS, TransferKind};
pub use targets::{Guard, SecretUse, TEST_TOPIC, TargetServices, Vault, sign};
pub use template::{Escape, Facts, Template};
pub use webhooks::{WEBHOOK_QUEUE, WEBHOOK_TOPIC, Webhooks};
