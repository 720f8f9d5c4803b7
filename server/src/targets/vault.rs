//! Vault: secrets that jobs name. Each is bound by the configuration to jobs or hosts, so that a caller who may
//! create jobs can neither read every variable or file of this process, nor send a secret to another host.

use std::io::Read as _;
use std::sync::{Arc, PoisonError, RwLock};

use punctual::{Error, Result};

use crate::config::Config;
use crate::spec::{JobSpec, Secret};

/// Largest size of a file with a secret in bytes.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// Secrets with the rules of their use.
#[derive(Clone, Debug, Default)]
pub struct Vault {
    rules: Arc<RwLock<Vec<Rule>>>,
}

/// A rule of a secret.
#[derive(Clone, Debug)]
struct Rule {
    secret: Secret,
    /// Jobs that may use it; any when empty.
    jobs: Vec<String>,
    /// Hosts it may be sent to; any when empty.
    hosts: Vec<String>,
}

/// The use of a secret.
#[derive(Clone, Copy, Debug, Default)]
pub struct SecretUse<'a> {
    /// The job.
    pub job: Option<&'a str>,
    /// The host it is sent to.
    pub host: Option<&'a str>,
}

impl Rule {
    fn allows(&self, secret: &Secret, secret_use: SecretUse<'_>) -> bool {
        let named = |patterns: &[String], name: Option<&str>| {
            patterns.is_empty()
                || name.is_some_and(|name| patterns.iter().any(|pattern| fits(pattern, name)))
        };
        self.secret == *secret
            && named(&self.jobs, secret_use.job)
            && named(&self.hosts, secret_use.host)
    }
}

/// Returns whether a name matches a pattern: `invoice-*` is a prefix, `*.example.com` a suffix.
fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.to_lowercase(), name.to_lowercase());
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(end), _) => name.ends_with(end),
        (None, Some(start)) => name.starts_with(start),
        (None, None) => name == pattern,
    }
}

impl Vault {
    /// Returns the vault with the secrets of a configuration and of its jobs.
    pub fn of(config: &Config) -> Self {
        let vault = Self::default();
        vault.update(config);
        vault
    }

    /// Replaces all rules by those of a reloaded configuration.
    pub fn update(&self, config: &Config) {
        let listed = config.secrets.values().filter_map(|listed| {
            let secret = listed.secret()?;
            Some(Rule { secret, jobs: listed.jobs.clone(), hosts: listed.hosts.clone() })
        });
        let named = config.jobs.iter().flat_map(|(name, job)| {
            let jobs = vec![name.clone()];
            secrets(job).into_iter().map(move |secret| Rule {
                secret,
                jobs: jobs.clone(),
                hosts: Vec::new(),
            })
        });
        let rules = listed.chain(named).collect();
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = rules;
    }

    /// Returns the text of a secret; fails when this use is not allowed.
    pub fn open(&self, secret: &Secret, secret_use: SecretUse<'_>) -> Result<String> {
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        let is_allowed = rules.iter().any(|rule| rule.allows(secret, secret_use));
        drop(rules);
        if secret.plain().is_some() || is_allowed {
            return resolve(secret);
        }
        let (job, host) = (secret_use.job.unwrap_or("none"), secret_use.host.unwrap_or("none"));
        Err(Error::invalid(format!(
            "the secret {secret:?} may not be used here (job {job:?}, host {host:?}); allow it in [secrets] of the configuration"
        )))
    }
}

/// Returns the text of a secret without checking a use; for secrets of the configuration itself.
pub(crate) fn resolve(secret: &Secret) -> Result<String> {
    match secret {
        Secret::Plain(text) => Ok(text.clone()),
        Secret::Env { env } => std::env::var(env).map_err(|_| {
            Error::invalid(format!("the variable {env} is not set; set it, or use another one"))
        }),
        Secret::File { file } => {
            let mut text = String::new();
            std::fs::File::open(file)
                .and_then(|opened| opened.take(FILE_BYTES_MAX).read_to_string(&mut text))
                .map_err(|error| {
                    Error::invalid(format!("the file {file:?} cannot be read: {error}"))
                })?;
            Ok(text.trim_end_matches(['\r', '\n']).to_owned())
        }
    }
}

fn secrets(job: &JobSpec) -> Vec<Secret> {
    let http = job.http.iter().flat_map(|http| {
        http.headers.values().chain(http.signature.iter().map(|signature| &signature.secret))
    });
    let command = job.command.iter().flat_map(|command| command.env.values());
    http.chain(command).filter(|secret| secret.plain().is_none()).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SecretConfig;

    fn listed(secret: &Secret, jobs: &[&str], hosts: &[&str]) -> Config {
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect();
        let mut rule = SecretConfig { jobs: texts(jobs), hosts: texts(hosts), ..<_>::default() };
        match secret {
            Secret::Env { env } => rule.env = Some(env.clone()),
            Secret::File { file } => rule.file = Some(file.clone()),
            Secret::Plain(_) => panic!("plain text is not a listed secret"),
        }
        Config { secrets: [("key".to_owned(), rule)].into(), ..Config::default() }
    }

    fn for_job(job: &str) -> SecretUse<'_> {
        SecretUse { job: Some(job), host: None }
    }

    #[test]
    fn only_secrets_of_the_configuration_are_readable() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, "s3cret\n").unwrap();
        let secret = Secret::File { file: path.display().to_string() };
        let vault = Vault::of(&Config::default());
        let error = vault.open(&secret, for_job("a")).unwrap_err().to_string();
        assert!(error.contains("[secrets]"), "{error}");
        let vault = Vault::of(&listed(&secret, &["a"], &[]));
        assert_eq!(vault.open(&secret, for_job("a")).unwrap(), "s3cret");
        let unset = Secret::Env { env: "PUNCTUAL_TEST_NOT_SET".to_owned() };
        let vault = Vault::of(&listed(&unset, &["a"], &[]));
        let error = vault.open(&unset, for_job("a")).unwrap_err().to_string();
        assert!(error.contains("PUNCTUAL_TEST_NOT_SET is not set"), "{error}");
    }

    #[test]
    fn a_secret_is_bound_to_jobs_and_hosts() {
        let secret = Secret::Env { env: "PATH".to_owned() };
        let opens = |jobs: &[&str], hosts: &[&str], job: Option<&str>, host: Option<&str>| {
            Vault::of(&listed(&secret, jobs, hosts)).open(&secret, SecretUse { job, host }).is_ok()
        };
        assert!(opens(&["invoice-*"], &[], Some("invoice-eu"), Some("anywhere.example")));
        assert!(!opens(&["invoice-*"], &[], Some("report"), None));
        assert!(!opens(&["invoice-*"], &[], None, None), "a message without a job");
        assert!(opens(&[], &["*.example.com"], Some("any"), Some("API.example.com")));
        assert!(!opens(&[], &["*.example.com"], Some("any"), Some("example.com.evil.net")));
        assert!(!opens(&[], &["api.example.com"], Some("any"), None), "a program has no host");
        let both = |job, host| opens(&["a"], &["b"], Some(job), Some(host));
        assert!(both("a", "b") && !both("a", "c") && !both("c", "b"));
    }

    #[test]
    fn a_job_of_the_configuration_may_use_only_its_own_secrets() {
        let job = "cron = \"0 2 * * *\"\nhttp = { url = \"https://a.example\", headers = { Key = { env = \"PATH\" } } }";
        let jobs = [("nightly".to_owned(), toml::from_str(job).unwrap())].into();
        let vault = Vault::of(&Config { jobs, ..Config::default() });
        let secret = Secret::Env { env: "PATH".to_owned() };
        assert!(vault.open(&secret, for_job("nightly")).is_ok());
        assert!(vault.open(&secret, for_job("made-over-http")).is_err());
    }
}
