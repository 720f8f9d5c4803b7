//! The configuration of a server: what `punctual.toml`, the environment and flags may say, each section
//! with its defaults. Reading is in `read.rs`, what makes sense together in `check.rs`.

mod auth;
mod check;
mod conflicts;
mod connections;
mod length;
mod log_level;
mod networks;
mod outgoing;
mod places;
mod problem;
mod read;
mod show;
mod telemetry;
mod tls;
mod tree;
mod warn;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

#[cfg(not(feature = "oidc"))]
pub(crate) use auth::WITHOUT_OIDC;
pub use auth::{AuthConfig, AuthMode};
#[cfg(feature = "oidc")]
pub(crate) use check::is_safe;
pub use connections::ConnectionsConfig;
pub use length::Length;
pub use networks::Networks;
pub use outgoing::OutgoingConfig;
pub(crate) use outgoing::proxy_url;
pub use places::Places;
pub use problem::{Problem as ConfigProblem, Problems as ConfigProblems};
pub use read::{FILE_DEFAULT, Loaded, Sources};
pub use telemetry::TelemetryConfig;
pub use tls::TlsConfig;
pub use warn::Warning as ConfigWarning;

use crate::spec::{JobSpec, Secret};

/// A complete configuration with a comment on everything; it passes its own check.
pub const EXAMPLE: &str = include_str!("config/example.toml");

/// Everything that can be configured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where it listens, and what this process does.
    pub server: ServerConfig,
    /// Where everything is remembered.
    pub storage: StorageConfig,
    /// Who may do what.
    pub auth: AuthConfig,
    /// What carries messages between processes, by name.
    pub transports: BTreeMap<String, TransportConfig>,
    /// The lines this process works on, by name.
    pub queues: BTreeMap<String, QueueConfig>,
    /// How long things are kept.
    pub retention: RetentionConfig,
    /// What is written to standard error.
    pub log: LogConfig,
    /// Where traces and metrics are sent.
    pub telemetry: TelemetryConfig,
    /// How this server calls others.
    pub outgoing: OutgoingConfig,
    /// What jobs may call.
    pub http: HttpConfig,
    /// What jobs may run.
    pub command: CommandConfig,
    /// Which secrets jobs may use, and where.
    pub secrets: BTreeMap<String, SecretConfig>,
    /// What is not shown to people.
    pub redact: RedactConfig,
    /// How events are sent out.
    pub webhooks: WebhooksConfig,
    /// The jobs, by name.
    pub jobs: BTreeMap<String, JobSpec>,
}

/// Where it listens, and what this process does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// The address and port.
    pub listen: SocketAddr,
    /// What every path begins with, where a reverse proxy serves it under one.
    pub url_prefix: String,
    /// The address under which people open the dashboard, such as `https://punctual.example.com`; the prefix
    /// is part of it. Needed where another server sends them back here.
    pub public_url: Option<String>,
    /// The addresses and networks of proxies whose `X-Forwarded-For` or `Forwarded` says where a call came from.
    pub trusted_forwarders: Networks,
    /// What this process does.
    pub roles: Vec<ServerRole>,
    /// The name of this process in lists of workers.
    pub name: Option<String>,
    /// How long work that runs may take to finish when the server stops; then it is asked to end.
    pub drain: Length,
    /// The certificate, where it speaks TLS itself; plain HTTP when not given.
    pub tls: Option<TlsConfig>,
    /// How many connections there may be, and how long clients may take.
    pub connections: ConnectionsConfig,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            url_prefix: String::new(),
            public_url: None,
            trusted_forwarders: Networks::default(),
            roles: ServerRole::ALL.to_vec(),
            name: None,
            drain: Length::seconds(30),
            tls: None,
            connections: ConnectionsConfig::default(),
        }
    }
}

/// Something a process may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerRole {
    /// Fires jobs.
    Scheduler,
    /// Runs handlers.
    Worker,
    /// Answers over HTTP.
    Api,
    /// Hands messages to transports.
    Relay,
}

impl ServerRole {
    /// Every role.
    pub const ALL: [Self; 4] = [Self::Scheduler, Self::Worker, Self::Api, Self::Relay];
}

/// Where everything is remembered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StorageConfig {
    /// The address; may hold a password.
    pub address: Secret,
}

impl Default for StorageConfig {
    fn default() -> Self {
        Self { address: Secret::from("sqlite:punctual.db") }
    }
}

/// What carries messages between processes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransportConfig {
    /// The address; may hold a password.
    pub address: Secret,
    /// Topics that are sent through it unless said otherwise; `orders.*` is all that begin so.
    #[serde(default)]
    pub topics: Vec<String>,
}

/// A line this process works on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueueConfig {
    /// How many of its messages at once.
    pub concurrency: Option<usize>,
}

/// How long things are kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetentionConfig {
    /// Finished messages and executions; for ever when not given.
    pub history: Option<Length>,
    /// The audit trail; 400 days when not given.
    pub audit: Option<Length>,
}

/// How lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// What is written to standard error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// How lines look.
    pub format: LogFormat,
    /// From which level on, such as `info`, or `info,punctual=debug`.
    pub level: String,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { format: LogFormat::Text, level: "info".to_owned() }
    }
}

/// What jobs may call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpConfig {
    /// Hosts, addresses and networks that may be called although they are private: `10.0.0.5`,
    /// `10.1.0.0/16`, `intranet.example.com`. Public addresses need no entry.
    pub allow: Networks,
    /// Hosts, addresses and networks that may never be called.
    pub deny: Networks,
}

/// What jobs may run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CommandConfig {
    /// Whether jobs may run programs at all.
    pub enabled: bool,
    /// The programs they may run, by absolute path; any when empty. For jobs with a shell, its path ends in `sh`.
    pub programs: Vec<String>,
    /// The variables of this process that programs see.
    pub env: Option<Vec<String>>,
    /// Variables that jobs may set where programs are listed; `REPORT_*` is all that begin so. Where none are listed,
    /// jobs may set any.
    pub job_env: Vec<String>,
}

/// A secret that jobs may use, and which jobs, or sent where. What a job of the configuration itself names is
/// allowed to that job already.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SecretConfig {
    /// A variable of the environment.
    pub env: Option<String>,
    /// Or a file.
    pub file: Option<String>,
    /// The jobs that may use it; `invoice-*` is all that begin so.
    pub jobs: Vec<String>,
    /// The hosts it may be sent to; `*.example.com` is all that end so.
    pub hosts: Vec<String>,
}

impl SecretConfig {
    /// The secret, when exactly one place is named.
    pub(crate) fn secret(&self) -> Option<Secret> {
        match (self.env.clone(), self.file.clone()) {
            (Some(env), None) => Some(Secret::Env { env }),
            (None, Some(file)) => Some(Secret::File { file }),
            _ => None,
        }
    }
}

/// What is not shown to people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RedactConfig {
    /// Names of members of JSON bodies and of headers, whatever their case.
    pub names: Vec<String>,
    /// Topics whose bodies no view shows; workers still get them; `orders.*` is all that begin so.
    pub topics: Vec<String>,
}

impl Default for RedactConfig {
    fn default() -> Self {
        let names = ["password", "secret", "token", "authorization", "api_key", "cookie"];
        Self { names: names.map(str::to_owned).to_vec(), topics: Vec::new() }
    }
}

/// How events are sent out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebhooksConfig {
    /// Whether they are sent at all.
    pub enabled: bool,
    /// How long one delivery may take.
    pub timeout: Length,
    /// After how many failures in a row a webhook is switched off.
    pub failures_max: u32,
}

impl Default for WebhooksConfig {
    fn default() -> Self {
        Self { enabled: true, timeout: Length::seconds(10), failures_max: 20 }
    }
}
