//! Secrets that jobs name. Each is bound by the configuration to the jobs or the hosts that may use it, so that
//! whoever may make jobs over HTTP can neither read whatever this process can, nor send a secret elsewhere.

use std::io::Read as _;
use std::sync::{Arc, PoisonError, RwLock};

use punctual::{Error, Result};

use crate::config::Config;
use crate::spec::{JobSpec, Secret};

/// The most bytes of a file with a secret.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// Gives out secrets.
#[derive(Clone, Debug, Default)]
pub struct Vault {
    rules: Arc<RwLock<Vec<Rule>>>,
}

/// Who may use a secret.
#[derive(Clone, Debug)]
struct Rule {
    secret: Secret,
    /// These jobs; any when there are none.
    jobs: Vec<String>,
    /// Sent to these hosts; anywhere when there are none.
    hosts: Vec<String>,
}

/// What a secret is wanted for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Purpose<'a> {
    /// The job.
    pub job: Option<&'a str>,
    /// The host it is sent to.
    pub host: Option<&'a str>,
}

impl Rule {
    fn allows(&self, secret: &Secret, purpose: Purpose<'_>) -> bool {
        let named = |patterns: &[String], name: Option<&str>| {
            patterns.is_empty()
                || name.is_some_and(|name| patterns.iter().any(|pattern| fits(pattern, name)))
        };
        self.secret == *secret && named(&self.jobs, purpose.job) && named(&self.hosts, purpose.host)
    }
}

/// Whether a name is meant: `invoice-*` is all that begin so, `*.example.com` all that end so.
fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.to_lowercase(), name.to_lowercase());
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(end), _) => name.ends_with(end),
        (None, Some(start)) => name.starts_with(start),
        (None, None) => name == pattern,
    }
}

impl Vault {
    /// What a configuration lists, and what its own jobs name.
    pub fn of(config: &Config) -> Self {
        let vault = Self::default();
        vault.learn(config);
        vault
    }

    /// The same from a configuration that was read again; what was allowed before no longer is by itself.
    pub fn learn(&self, config: &Config) {
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

    /// The text of a secret, for a purpose it may be used for.
    pub fn open(&self, secret: &Secret, purpose: Purpose<'_>) -> Result<String> {
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        let is_allowed = rules.iter().any(|rule| rule.allows(secret, purpose));
        drop(rules);
        if secret.plain().is_some() || is_allowed {
            return resolve(secret);
        }
        let (job, host) = (purpose.job.unwrap_or("none"), purpose.host.unwrap_or("none"));
        Err(Error::invalid(format!(
            "the secret {secret:?} may not be used here (job {job:?}, host {host:?}); allow it in [secrets] of the configuration"
        )))
    }
}

/// The text of a secret that the configuration itself names.
pub(crate) fn resolve(secret: &Secret) -> Result<String> {
    match secret {
        Secret::Plain(text) => Ok(text.clone()),
        Secret::Env { env } => std::env::var(env).map_err(|_| {
            Error::invalid(format!("the variable {env} is not set; set it, or name another one"))
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
            Secret::Plain(_) => panic!("a text is no secret of the configuration"),
        }
        Config { secrets: [("key".to_owned(), rule)].into(), ..Config::default() }
    }

    fn for_job(job: &str) -> Purpose<'_> {
        Purpose { job: Some(job), host: None }
    }

    #[test]
    fn only_what_the_configuration_names_is_given_out() {
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
            Vault::of(&listed(&secret, jobs, hosts)).open(&secret, Purpose { job, host }).is_ok()
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
    fn a_job_of_the_configuration_brings_its_own_secrets_and_nobody_elses() {
        let job = "cron = \"0 2 * * *\"\nhttp = { url = \"https://a.example\", headers = { Key = { env = \"PATH\" } } }";
        let jobs = [("nightly".to_owned(), toml::from_str(job).unwrap())].into();
        let vault = Vault::of(&Config { jobs, ..Config::default() });
        let secret = Secret::Env { env: "PATH".to_owned() };
        assert!(vault.open(&secret, for_job("nightly")).is_ok());
        assert!(vault.open(&secret, for_job("made-over-http")).is_err());
    }
}
