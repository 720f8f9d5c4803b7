//! The section `[server.tls]`: the certificate of the server.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{AuthMode, Config, ServerRole};

/// The certificate of the server. Both files are read again when they change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// A file in PEM with the certificate, followed by those of the authorities between it and the root.
    pub certificate: PathBuf,
    /// A file in PEM with its private key.
    pub key: PathBuf,
}

impl Config {
    /// Returns what is wrong with how passwords travel: in clear, to an address that other machines reach.
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
            "passwords and tokens travel unencrypted to {}: everybody on the way can read them; set [server.tls], or put a proxy that ends TLS in front and its address into server.public_url (https://...)",
            server.listen
        ))
    }
}
