//! What makes sense together. Every key by itself has been read before.

use std::borrow::Cow;
use std::path::Path;

use punctual::model::{Queue, TransportName};

use super::log_level;
use super::problem::Problem;
use super::tree::Tree;
use super::{AuthMode, Config, ServerRole};
use crate::caller::Role;
use crate::redact::Redaction;
use crate::spec::{FieldError, JobSpec, SCHEDULE_KEYS, TARGET_KEYS, schedule_count, target_count};
use crate::targets::allowed;

/// Collects what is wrong.
struct Found<'a> {
    tree: &'a Tree,
    problems: Vec<Problem>,
}

impl Found<'_> {
    fn add(&mut self, key: &[&str], problem: impl Into<String>) {
        let path: Vec<String> = key.iter().map(|part| (*part).to_owned()).collect();
        self.problems.push(self.tree.places.problem(&path, problem));
    }

    /// Adds that something is missing, unless what was said of it is wrong and has been noted.
    fn add_missing(&mut self, key: &[&str], problem: impl Into<String>) {
        if self.tree.is_intact(key) {
            self.add(key, problem);
        }
    }
}

impl Config {
    /// Returns everything that is wrong. What was taken out of the tree because it is wrong is not missing.
    pub(super) fn check(&self, tree: &Tree) -> Vec<Problem> {
        let mut found = Found { tree, problems: Vec::new() };
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

    fn check_server(&self, found: &mut Found<'_>) {
        let server = &self.server;
        if server.roles.is_empty() {
            let known = "scheduler, worker, api and relay";
            found.add(&["server", "roles"], format!("there are none; say some of {known}"));
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
                    "{url:?} must be a URL with https (http is for this machine) that ends with server.url_prefix, such as \"https://punctual.example.com{prefix}\""
                );
                found.add(&["server", "public_url"], problem);
            }
        }
        if let Some(key) = server.connections.problem() {
            let problem = "0 lets nobody in; give 1 or more, or leave it out";
            found.add(&["server", "connections", key], problem);
        }
        if let Some(host) = server.trusted_forwarders.first_host() {
            let problem = format!(
                "{host:?} is a name; a forwarder is known by its address, such as 10.0.0.1 or 10.0.0.0/8"
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
                    "{} can be reached from other machines, and nobody would have to log in; choose auth.mode = \"password\", \"proxy\" or \"oidc\", or listen on 127.0.0.1",
                    server.listen
                ),
            );
        }
    }

    fn check_auth(&self, found: &mut Found<'_>) {
        let auth = &self.auth;
        if auth.mode == AuthMode::Proxy && auth.proxy_trusted.is_empty() {
            found.add_missing(
                &["auth", "proxy_trusted"],
                "without the address of the proxy anybody could send its header; list it, such as [\"10.0.0.1\"]",
            );
        }
        if auth.mode == AuthMode::Oidc {
            self.check_oidc(found);
        }
    }

    fn check_oidc(&self, found: &mut Found<'_>) {
        #[cfg(not(feature = "oidc"))]
        found.add(&["auth", "mode"], super::auth::WITHOUT_OIDC);
        let auth = &self.auth;
        for (key, given) in [
            (["auth", "oidc_issuer"], auth.oidc_issuer.as_deref()),
            (["auth", "oidc_client_id"], auth.oidc_client_id.as_deref()),
            (["server", "public_url"], self.server.public_url.as_deref()),
        ] {
            if given.is_none_or(str::is_empty) {
                found.add_missing(&key, "the mode oidc needs it");
            }
        }
        if let Some(issuer) = &auth.oidc_issuer
            && !is_safe(issuer)
        {
            let problem = format!("{issuer:?} must be a URL with https; http is for this machine");
            found.add(&["auth", "oidc_issuer"], problem);
        }
        if !auth.oidc_roles.is_empty() && auth.oidc_role_claim.is_none() {
            let problem =
                "auth.oidc_roles is about the values of a claim; say which, such as \"groups\"";
            found.add_missing(&["auth", "oidc_role_claim"], problem);
        }
        let is_intact = found.tree.is_intact(&["auth", "oidc_role_default"]);
        if auth.oidc_roles.is_empty() && auth.oidc_role_default.is_none() && is_intact {
            let problem = "nobody would get in; give oidc_role_claim and oidc_roles, or oidc_role_default = \"viewer\"";
            found.add_missing(&["auth", "oidc_roles"], problem);
        }
        let named = auth.oidc_roles.iter().map(|(name, role)| (vec!["oidc_roles", name], *role));
        let default = auth.oidc_role_default.map(|role| (vec!["oidc_role_default"], role));
        for (key, _) in named.chain(default).filter(|(_, role)| *role == Role::Guest) {
            let key: Vec<&str> = std::iter::once("auth").chain(key).collect();
            found.add(&key, "a guest sees nothing; there are viewer, operator and admin");
        }
    }

    fn check_places(&self, found: &mut Found<'_>) {
        if let Some(address) = self.storage.address.plain()
            && let Err(error) = punctual_connect::Address::parse(address)
        {
            found.add(&["storage", "address"], error.to_string());
        }
        for (name, transport) in &self.transports {
            if let Err(error) = TransportName::new(name) {
                found.add(&["transports", name], error.to_string());
            }
            if let Some(address) = transport.address.plain()
                && let Err(error) = punctual_connect::check_transport(address)
            {
                found.add(&["transports", name, "address"], error.to_string());
            }
        }
        for (name, queue) in &self.queues {
            if let Err(error) = Queue::new(name) {
                found.add(&["queues", name], error.to_string());
            }
            if queue.concurrency == Some(0) {
                let problem = "0 works on nothing; give 1 or more, or leave the queue out";
                found.add(&["queues", name, "concurrency"], problem);
            }
        }
    }

    fn check_programs(&self, found: &mut Found<'_>) {
        for program in self.command.programs.iter().filter(|one| !Path::new(one).is_absolute()) {
            let problem = format!(
                "{program:?} could be any file of that name; write the absolute path, such as /usr/bin/{program}"
            );
            found.add(&["command", "programs"], problem);
        }
    }

    fn check_secrets(&self, found: &mut Found<'_>) {
        for (name, secret) in &self.secrets {
            if secret.secret().is_none() {
                found.add_missing(&["secrets", name], "give one of env and file");
            }
            if secret.jobs.is_empty() && secret.hosts.is_empty() {
                let problem = "every job made over HTTP could use it; write [secrets.NAME] with env or file, and with the jobs that may use it or the hosts it may be sent to";
                found.add_missing(&["secrets", name], problem);
            }
        }
    }

    fn check_redact(&self, found: &mut Found<'_>) {
        if let Err(error) = Redaction::new(&self.redact.names) {
            found.add(&["redact", "names"], error.to_string());
        }
        if let Err(error) = Redaction::default().of_topics(&self.redact.topics) {
            found.add(&["redact", "topics"], error.to_string());
        }
    }

    fn check_job(&self, name: &str, spec: &JobSpec, found: &mut Found<'_>) {
        let of_job = |field: &str| -> Vec<String> {
            ["jobs", name].into_iter().chain(field.split('.')).map(str::to_owned).collect()
        };
        let errors = completed(name, spec, found.tree).check(name).into_iter();
        // How many there are is counted below, with those that were taken out.
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

/// A job with something right in place of a schedule that was taken out, so that a zone and an anchor have what they
/// belong to.
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

/// Says that a job has none or several of what it must have one of. What is wrong counts as well.
fn miscounted(name: &str, tree: &Tree) -> Vec<FieldError> {
    let count =
        |keys: &[&str]| keys.iter().filter(|key| tree.was_given(&["jobs", name, key])).count();
    let counts = [count(&SCHEDULE_KEYS), count(&TARGET_KEYS)];
    // In a file that is not TOML it may stand in the part that could not be read.
    let counts = counts.map(|count| if tree.is_whole { count } else { count.max(1) });
    schedule_count(counts[0]).into_iter().chain(target_count(counts[1])).collect()
}

/// Whether nobody on the way can read what is sent there.
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
