//! The configuration in force as text, without secrets.

use punctual::{Error, Result};
use serde_json::Value;

use super::Config;
use crate::spec::{JobSpec, Secret, Target};

impl Config {
    /// Returns the configuration without secrets.
    #[must_use]
    pub fn hidden(&self) -> Self {
        let mut config = self.clone();
        config.storage.address = without_password(&config.storage.address);
        for transport in config.transports.values_mut() {
            transport.address = without_password(&transport.address);
        }
        if let Some(address) = &mut config.outgoing.proxy {
            *address = without_password(address);
        }
        if let Some(secret) = &mut config.auth.oidc_client_secret {
            *secret = secret.hidden();
        }
        for secret in config.telemetry.headers.values_mut() {
            *secret = secret.hidden();
        }
        for job in config.jobs.values_mut() {
            hide(job);
        }
        config
    }

    /// Returns the configuration as TOML without secrets.
    pub fn show(&self) -> Result<String> {
        let mut value = serde_json::to_value(self.hidden()).map_err(unwritable)?;
        // TOML has no null.
        without_nulls(&mut value);
        toml::to_string_pretty(&value).map_err(unwritable)
    }
}

fn unwritable(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::internal("the configuration cannot be written").caused_by(error)
}

fn hide(job: &mut JobSpec) {
    if let Ok(target) = job.target() {
        match target.hidden() {
            Target::Http(http) => job.http = Some(http),
            Target::Command(command) => job.command = Some(command),
            Target::Publish(_) | Target::Code(_) => {}
        }
    }
}

/// Returns an address with the user info and the query hidden, which may contain a password; or hidden as a whole
/// when they cannot be located.
fn without_password(address: &Secret) -> Secret {
    let Some(text) = address.plain() else { return address.clone() };
    let Some((scheme, rest)) = text.split_once("://") else {
        return if text.contains(['@', ';']) { address.hidden() } else { address.clone() };
    };
    match rest.rsplit_once('@') {
        Some((_, host)) => {
            let (host, query) = match host.find(['?', '#', ';']) {
                Some(at) => (&host[..at], "?(hidden)"),
                None => (host, ""),
            };
            Secret::Plain(format!("{scheme}://(hidden)@{host}{query}"))
        }
        None if rest.contains([';', '?']) => address.hidden(),
        None => address.clone(),
    }
}

fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => {
            items.retain(|item| !item.is_null());
            items.iter_mut().for_each(without_nulls);
        }
        _ => {}
    }
}
