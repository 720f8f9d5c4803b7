//! The section `[server.tls]`: the TLS certificate of the server.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{AuthMode, Config, ServerRole};

/// The TLS certificate of the server. Both files are reloaded when they change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// A PEM file with the certificate, followed by the intermediate certificates.
    pub certificate: PathBuf,
    /// A PEM file with the private key.
    pub key: PathBuf,
}

impl Config {
    /// Returns a warning when passwords are sent unencrypted to an address that other machines can reach.
    pub fn plain_passwords(&self) -> Option<String> {
        let server = &self.server;
        let is_public = |url: &String| url.starts_with("https://");
        let is_protected = server.tls.is_some()
            || server.listen.ip().is_loopback()
            || server.public_url.as_ref().is_some_and(is_public)
            || !server.roles.contains(&ServerRole::Api);
        if is_protected || self.auth.mode != AuthMode::Password {
            return None;
        }
        Some(format!(
            "passwords and tokens are sent unencrypted to {} and can be read on the network; set [server.tls], or put a proxy that terminates TLS in front and its address into server.public_url (https://...)",
            server.listen
        ))
    }
}
