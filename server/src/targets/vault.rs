//! Secrets that jobs name. Only those that the configuration lists or names itself are given out, so that
//! whoever may make jobs over HTTP cannot read whatever this process can.

use std::collections::BTreeSet;
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
    allowed: Arc<RwLock<BTreeSet<Secret>>>,
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
        let env = config.secrets.env.iter().map(|env| Secret::Env { env: env.clone() });
        let files = config.secrets.files.iter().map(|file| Secret::File { file: file.clone() });
        let named = config.jobs.values().flat_map(secrets);
        let allowed = env.chain(files).chain(named).collect();
        *self.allowed.write().unwrap_or_else(PoisonError::into_inner) = allowed;
    }

    /// The text of a secret.
    pub fn open(&self, secret: &Secret) -> Result<String> {
        let allowed = self.allowed.read().unwrap_or_else(PoisonError::into_inner);
        if secret.plain().is_none() && !allowed.contains(secret) {
            return Err(Error::invalid(format!(
                "the secret {secret:?} is not allowed here; list it in [secrets] of the configuration"
            )));
        }
        drop(allowed);
        resolve(secret)
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

    #[test]
    fn only_what_the_configuration_names_is_given_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, "s3cret\n").unwrap();
        let file = path.display().to_string();
        let mut config = Config::default();
        let secret = Secret::File { file: file.clone() };
        let error = Vault::of(&config).open(&secret).unwrap_err().to_string();
        assert!(error.contains("[secrets]"), "{error}");
        config.secrets.files = vec![file];
        assert_eq!(Vault::of(&config).open(&secret).unwrap(), "s3cret");
        let unset = Secret::Env { env: "PUNCTUAL_TEST_NOT_SET".to_owned() };
        config.secrets.env = vec!["PUNCTUAL_TEST_NOT_SET".to_owned()];
        let error = Vault::of(&config).open(&unset).unwrap_err().to_string();
        assert!(error.contains("PUNCTUAL_TEST_NOT_SET is not set"), "{error}");
    }
}
