//! Checks of a configuration across keys. Every single key has been parsed before.

use std::borrow::Cow;
use std::path::Path;

use punctual::model::{Queue, TransportName};

use super::log_level;
use super::problem::ConfigError;
use super::tree::Tree;
use super::{AuthMode, Config, ServerRole};
use crate::caller::Role;
use crate::redact::Redaction;
use crate::spec::{FieldError, JobSpec, SCHEDULE_KEYS, TARGET_KEYS, schedule_count, target_count};
use crate::targets::allowed;

/// Collector of problems.
struct Findings<'a> {
    tree: &'a Tree,
    problems: Vec<ConfigError>,
}

impl Findings<'_> {
    fn add(&mut self, key: &[&str], problem: impl Into<String>) {
        let path: Vec<String> = key.iter().map(|part| (*part).to_owned()).collect();
        self.problems.push(self.tree.places.problem(&path, problem));
    }

    /// Adds a missing key, unless its value is present but invalid and was reported.
    fn add_missing(&mut self, key: &[&str], problem: impl Into<String>) {
        if self.tree.is_intact(key) {
            self.add(key, problem);
        }
    }
}

impl Config {
    /// Returns all problems. Invalid values that were removed from the tree do not count as missing.
    pub(super) fn check(&self, tree: &Tree) -> Vec<ConfigError> {
        let mut found = Findings { tree, problems: Vec::new() };
        self.check_server(&mut found);
        self.check_auth(&mut found);
        self.check_places(&mut found);
        self.check_redact(&mut found);
        self.check_secrets(&mut found);
        self.check_programs(&mut found);
        if let Some(problem) = log_level::problem(&self.log.level) {
            found.add(&["log", "level"], problem);
        }
        if let Some(problem) = self.telemetry.problem() {
            found.add(&["telemetry", "otlp"], problem);
        }
        if let Some(problem) = self.outgoing.problem() {
            found.add(&["outgoing", "proxy"], problem);
        }
        for (name, spec) in &self.jobs {
            self.check_job(name, spec, &mut found);
        }
        for (key, problem) in self.conflicts() {
            found.problems.push(tree.places.problem(&key, problem));
        }
        found.problems
    }

    fn check_server(&self, found: &mut Findings<'_>) {
        let server = &self.server;
        if server.roles.is_empty() {
            let known = "scheduler, worker, api and relay";
            found.add(
                &["server", "roles"],
                format!("the list is empty; use one or more of {known}"),
            );
        }
        let prefix = &server.url_prefix;
        if !prefix.is_empty() && (!prefix.starts_with('/') || prefix.ends_with('/')) {
            let problem = format!("{prefix:?} must begin with a slash and not end with one");
            found.add(&["server", "url_prefix"], problem);
        }
        if let Some(url) = &server.public_url {
            let path = url::Url::parse(url).ok().filter(url::Url::has_host);
            let path = path.map(|url| url.path().trim_end_matches('/').to_owned());
            if path.is_none_or(|path| !path.ends_with(prefix.as_str())) || !is_safe(url) {
                let problem = format!(
                    "{url:?} must be an https URL (http only for this machine) that ends with server.url_prefix, such as \"https://punctual.example.com{prefix}\""
                );
                found.add(&["server", "public_url"], problem);
            }
        }
        if let Some(key) = server.connections.problem() {
            let problem = "0 refuses every client; set 1 or more, or leave it out";
            found.add(&["server", "connections", key], problem);
        }
        if let Some(host) = server.trusted_forwarders.first_host() {
            let problem = format!(
                "{host:?} is a name; list forwarders by address, such as 10.0.0.1 or 10.0.0.0/8"
            );
            found.add(&["server", "trusted_forwarders"], problem);
        }
        let is_open = !server.listen.ip().is_loopback() && server.roles.contains(&ServerRole::Api);
        let is_known =
            [["auth", "mode"], ["server", "roles"]].iter().all(|key| found.tree.is_intact(key));
        if is_open && self.auth.mode == AuthMode::None && is_known {
            found.add(
                &["server", "listen"],
                format!(
                    "{} can be reached from other machines without authentication; set auth.mode = \"password\", \"proxy\" or \"oidc\", or listen on 127.0.0.1",
                    server.listen
                ),
            );
        }
    }

    fn check_auth(&self, found: &mut Findings<'_>) {
        let auth = &self.auth;
        if auth.mode == AuthMode::Proxy && auth.proxy_trusted.is_empty() {
            found.add_missing(
                &["auth", "proxy_trusted"],
                "without the address of the proxy every client could send its header; list it, such as [\"10.0.0.1\"]",
            );
        }
        if auth.mode == AuthMode::Oidc {
            self.check_oidc(found);
        }
    }

    fn check_oidc(&self, found: &mut Findings<'_>) {
        #[cfg(not(feature = "oidc"))]
        found.add(&["auth", "mode"], super::auth::WITHOUT_OIDC);
        let auth = &self.auth;
        for (key, value) in [
            (["auth", "oidc_issuer"], auth.oidc_issuer.as_deref()),
            (["auth", "oidc_client_id"], auth.oidc_client_id.as_deref()),
            (["server", "public_url"], self.server.public_url.as_deref()),
        ] {
            if value.is_none_or(str::is_empty) {
                found.add_missing(&key, "it is required by the mode oidc");
            }
        }
        if let Some(issuer) = &auth.oidc_issuer
            && !is_safe(issuer)
        {
            let problem = format!("{issuer:?} must be an https URL; http only for this machine");
            found.add(&["auth", "oidc_issuer"], problem);
        }
        if !auth.oidc_roles.is_empty() && auth.oidc_role_claim.is_none() {
            let problem =
                "auth.oidc_roles maps the values of a claim; name the claim, such as \"groups\"";
            found.add_missing(&["auth", "oidc_role_claim"], problem);
        }
        let is_intact = found.tree.is_intact(&["auth", "oidc_role_default"]);
        if auth.oidc_roles.is_empty() && auth.oidc_role_default.is_none() && is_intact {
            let problem = "no user could sign in; set oidc_role_claim and oidc_roles, or oidc_role_default = \"viewer\"";
            found.add_missing(&["auth", "oidc_roles"], problem);
        }
        let named = auth.oidc_roles.iter().map(|(name, role)| (vec!["oidc_roles", name], *role));
        let default = auth.oidc_role_default.map(|role| (vec!["oidc_role_default"], role));
        for (key, _) in named.chain(default).filter(|(_, role)| *role == Role::Guest) {
            let key: Vec<&str> = std::iter::once("auth").chain(key).collect();
            found.add(&key, "a guest has no access; use viewer, operator or admin");
        }
    }

    fn check_places(&self, found: &mut Findings<'_>) {
        if let Some(address) = self.storage.address.plain()
            && let Err(error) = punctual_backends::Address::parse(address)
        {
            found.add(&["storage", "address"], error.to_string());
        }
        for (name, transport) in &self.transports {
            if let Err(error) = TransportName::new(name) {
                found.add(&["transports", name], error.to_string());
            }
            if let Some(address) = transport.address.plain()
                && let Err(error) = punctual_backends::check_transport(address)
            {
                found.add(&["transports", name, "address"], error.to_string());
            }
        }
        for (name, queue) in &self.queues {
            if let Err(error) = Queue::new(name) {
                found.add(&["queues", name], error.to_string());
            }
            if queue.concurrency == Some(0) {
                let problem = "0 handles no messages; set 1 or more, or leave the queue out";
                found.add(&["queues", name, "concurrency"], problem);
            }
        }
    }

    fn check_programs(&self, found: &mut Findings<'_>) {
        for program in self.command.programs.iter().filter(|one| !Path::new(one).is_absolute()) {
            let problem =
                format!("{program:?} is not an absolute path; use one such as /usr/bin/{program}");
            found.add(&["command", "programs"], problem);
        }
    }

    fn check_secrets(&self, found: &mut Findings<'_>) {
        for (name, secret) in &self.secrets {
            if secret.secret().is_none() {
                found.add_missing(&["secrets", name], "set one of env and file");
            }
            if secret.jobs.is_empty() && secret.hosts.is_empty() {
                let problem = "every job created over HTTP could use it; set jobs (which may use it) or hosts (which it may be sent to) in [secrets.NAME]";
                found.add_missing(&["secrets", name], problem);
            }
        }
    }

    fn check_redact(&self, found: &mut Findings<'_>) {
        if let Err(error) = Redaction::new(&self.redact.names) {
            found.add(&["redact", "names"], error.to_string());
        }
        if let Err(error) = Redaction::default().of_topics(&self.redact.topics) {
            found.add(&["redact", "topics"], error.to_string());
        }
    }

    fn check_job(&self, name: &str, spec: &JobSpec, found: &mut Findings<'_>) {
        let of_job = |field: &str| -> Vec<String> {
            ["jobs", name].into_iter().chain(field.split('.')).map(str::to_owned).collect()
        };
        let errors = completed(name, spec, found.tree).check(name).into_iter();
        // Schedules and targets are counted below, including those that were removed.
        let errors = errors.filter(|one| !matches!(one.field.as_str(), "schedule" | "target"));
        for FieldError { field, problem } in errors.chain(miscounted(name, found.tree)) {
            found.problems.push(found.tree.places.problem(&of_job(&field), problem));
        }
        if let Some(command) = &spec.command
            && found.tree.is_intact(&["command"])
            && let Err(error) = allowed(&self.command, command)
        {
            found.add(&["jobs", name, "command"], error.to_string());
        }
        if let Some(transport) = spec.publish.as_ref().and_then(|one| one.transport.as_ref())
            && !self.transports.contains_key(transport)
            && found.tree.is_intact(&["transports", transport])
        {
            found.add(
                &["jobs", name, "publish", "transport"],
                format!("there is no transport {transport:?}; add [transports.{transport}]"),
            );
        }
    }
}

/// Returns the job with a valid schedule in place of a removed one, so that its zone and anchor are not reported too.
fn completed<'a>(name: &str, spec: &'a JobSpec, tree: &Tree) -> Cow<'a, JobSpec> {
    let mut spec = Cow::Borrowed(spec);
    if tree.was_removed(&["jobs", name, "cron"]) {
        spec.to_mut().cron = Some("@daily".to_owned());
    }
    if tree.was_removed(&["jobs", name, "every"]) {
        spec.to_mut().every = Some("1d".to_owned());
    }
    spec
}

/// Returns the errors of a job without exactly one schedule and one target. Invalid ones count as well.
fn miscounted(name: &str, tree: &Tree) -> Vec<FieldError> {
    let count =
        |keys: &[&str]| keys.iter().filter(|key| tree.is_present(&["jobs", name, key])).count();
    let counts = [count(&SCHEDULE_KEYS), count(&TARGET_KEYS)];
    // In a file that is not TOML it may be in the part that could not be read.
    let counts = counts.map(|count| if tree.is_whole { count } else { count.max(1) });
    schedule_count(counts[0]).into_iter().chain(target_count(counts[1])).collect()
}

/// Returns whether a URL is encrypted or local.
pub(crate) fn is_safe(url: &str) -> bool {
    let Ok(url) = url::Url::parse(url) else { return false };
    let is_local = match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => return false,
    };
    url.scheme() == "https" || (url.scheme() == "http" && is_local)
}
