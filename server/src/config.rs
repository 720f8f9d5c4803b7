//! Configuration of a server: the sections of `punctual.toml` with their defaults, which environment variables
//! and flags may override. Reading is in `read.rs`, checks across keys in `check.rs`.

mod auth;
mod check;
mod conflicts;
mod connections;
mod duration;
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
pub use duration::ConfigDuration;
pub use networks::Networks;
pub use outgoing::OutgoingConfig;
pub(crate) use outgoing::proxy_url;
pub use places::Places;
pub use problem::{ConfigError, ConfigErrors};
pub use read::{FILE_DEFAULT, LoadedConfig, Sources};
pub use telemetry::TelemetryConfig;
pub use tls::TlsConfig;
pub use warn::ConfigWarning;

use crate::spec::{JobSpec, Secret};

/// Example configuration with every key and comments; it passes the check.
pub const EXAMPLE: &str = include_str!("config/example.toml");

/// The configuration of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Address, roles and limits of this process.
    pub server: ServerConfig,
    /// The storage.
    pub storage: StorageConfig,
    /// Authentication.
    pub auth: AuthConfig,
    /// The transports, by name.
    pub transports: BTreeMap<String, TransportConfig>,
    /// The queues this process works on, by name.
    pub queues: BTreeMap<String, QueueConfig>,
    /// How long history is kept.
    pub retention: RetentionConfig,
    /// The log on standard error.
    pub log: LogConfig,
    /// Export of traces and metrics.
    pub telemetry: TelemetryConfig,
    /// Outgoing HTTP calls.
    pub outgoing: OutgoingConfig,
    /// Hosts that jobs may call.
    pub http: HttpConfig,
    /// Programs that jobs may run.
    pub command: CommandConfig,
    /// Secrets that jobs may use, by name.
    pub secrets: BTreeMap<String, SecretConfig>,
    /// Values that views redact.
    pub redact: RedactConfig,
    /// Webhooks.
    pub webhooks: WebhooksConfig,
    /// The jobs, by name.
    pub jobs: BTreeMap<String, JobSpec>,
}

/// The section `[server]`: address, roles and limits of this process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// The address and port.
    pub listen: SocketAddr,
    /// The URL prefix of every path, for a reverse proxy that serves it under one.
    pub url_prefix: String,
    /// The public address of the dashboard with the prefix, such as `https://punctual.example.com`. Required by
    /// the mode `oidc`.
    pub public_url: Option<String>,
    /// The addresses and networks of proxies whose `X-Forwarded-For` or `Forwarded` is trusted.
    pub trusted_forwarders: Networks,
    /// The roles of this process.
    pub roles: Vec<ServerRole>,
    /// The name of this process in lists of workers.
    pub name: Option<String>,
    /// How long running work may take to finish at shutdown before it is cancelled.
    pub drain_timeout: ConfigDuration,
    /// The TLS certificate; plain HTTP without it.
    pub tls: Option<TlsConfig>,
    /// Limits and timeouts of connections.
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
            drain_timeout: ConfigDuration::seconds(30),
            tls: None,
            connections: ConnectionsConfig::default(),
        }
    }
}

/// A role of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerRole {
    /// Fires jobs.
    Scheduler,
    /// Runs handlers.
    Worker,
    /// Serves the HTTP API and the dashboard.
    Api,
    /// Relays stored messages to transports.
    Relay,
}

impl ServerRole {
    /// Every role.
    pub const ALL: [Self; 4] = [Self::Scheduler, Self::Worker, Self::Api, Self::Relay];
}

/// The section `[storage]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StorageConfig {
    /// The address; may contain a password.
    pub address: Secret,
}

impl Default for StorageConfig {
    fn default() -> Self {
        Self { address: Secret::from("sqlite:punctual.db") }
    }
}

/// A table `[transports.NAME]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransportConfig {
    /// The address; may contain a password.
    pub address: Secret,
    /// Topics that use this transport by default; `orders.*` is a prefix.
    #[serde(default)]
    pub topics: Vec<String>,
}

/// A table `[queues.NAME]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueueConfig {
    /// How many messages are handled in parallel.
    pub concurrency: Option<usize>,
}

/// The section `[retention]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetentionConfig {
    /// Retention of finished messages and executions; unlimited by default.
    pub history: Option<ConfigDuration>,
    /// Retention of the audit trail; 400 days by default.
    pub audit: Option<ConfigDuration>,
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Human-readable text.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// The section `[log]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// Format of log lines.
    pub format: LogFormat,
    /// The lowest level, such as `info`, or `info,punctual=debug`.
    pub level: String,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { format: LogFormat::Text, level: "info".to_owned() }
    }
}

/// The section `[http]`: hosts that jobs may call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpConfig {
    /// Private hosts, addresses and networks that may be called: `10.0.0.5`, `10.1.0.0/16`, `intranet.example.com`.
    /// Public addresses need no entry.
    pub allow: Networks,
    /// Hosts, addresses and networks that may never be called.
    pub deny: Networks,
}

/// The section `[command]`: programs that jobs may run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CommandConfig {
    /// Whether jobs may run programs at all.
    pub enabled: bool,
    /// The programs they may run, by absolute path; any when empty. For jobs with a shell, its path ends in `sh`.
    pub programs: Vec<String>,
    /// Environment variables of this process that programs inherit.
    pub env: Option<Vec<String>>,
    /// Variables that jobs may set when `programs` is not empty; `REPORT_*` is a prefix. Without `programs`, jobs
    /// may set any.
    pub job_env: Vec<String>,
}

/// A table `[secrets.NAME]`: a secret, and the jobs or hosts that may use it. Secrets that a job of the configuration
/// names are allowed for that job without an entry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SecretConfig {
    /// The environment variable that holds it.
    pub env: Option<String>,
    /// Or the file that holds it.
    pub file: Option<String>,
    /// The jobs that may use it; `invoice-*` is a prefix.
    pub jobs: Vec<String>,
    /// The hosts it may be sent to; `*.example.com` is a suffix.
    pub hosts: Vec<String>,
}

impl SecretConfig {
    /// Returns the secret, if exactly one of `env` and `file` is set.
    pub(crate) fn secret(&self) -> Option<Secret> {
        match (self.env.clone(), self.file.clone()) {
            (Some(env), None) => Some(Secret::Env { env }),
            (None, Some(file)) => Some(Secret::File { file }),
            _ => None,
        }
    }
}

/// The section `[redact]`: values that views redact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RedactConfig {
    /// Names of JSON members and headers, case-insensitive.
    pub names: Vec<String>,
    /// Topics whose bodies are redacted as a whole, with the errors and logs of their handlers; workers still receive
    /// the bodies; `orders.*` is a prefix.
    pub topics: Vec<String>,
}

impl Default for RedactConfig {
    fn default() -> Self {
        let names = ["password", "secret", "token", "authorization", "api_key", "cookie"];
        Self { names: names.map(str::to_owned).to_vec(), topics: Vec::new() }
    }
}

/// The section `[webhooks]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebhooksConfig {
    /// Whether webhooks are delivered.
    pub enabled: bool,
    /// Timeout of one delivery.
    pub timeout: ConfigDuration,
    /// Number of consecutive failures after which a webhook is disabled.
    pub failures_max: u32,
}

impl Default for WebhooksConfig {
    fn default() -> Self {
        Self { enabled: true, timeout: ConfigDuration::seconds(10), failures_max: 20 }
    }
}
