//! The section `[outgoing]`: outgoing HTTP calls of the server.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use url::Url;

use super::Networks;
use crate::spec::Secret;

/// Settings of outgoing HTTP calls: job targets, webhooks, the identity provider and the telemetry collector.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OutgoingConfig {
    /// A PEM file with additional trusted certificate authorities.
    pub ca_file: Option<PathBuf>,
    /// The HTTP proxy, such as `http://proxy.example.com:3128`; may contain a name and a password.
    pub proxy: Option<Secret>,
    /// Hosts, addresses and networks that bypass the proxy.
    pub no_proxy: Networks,
}

impl OutgoingConfig {
    /// Returns the problem of the proxy address, if any.
    pub(super) fn problem(&self) -> Option<String> {
        let text = self.proxy.as_ref()?.plain()?;
        proxy_url(text).is_none().then(|| {
            // The value is not shown: it may contain a password.
            "it must be an http or https URL with a host, such as \"http://proxy.example.com:3128\""
                .to_owned()
        })
    }
}

/// Parses the address of a proxy.
pub(crate) fn proxy_url(text: &str) -> Option<Url> {
    let is_usable = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
    Url::parse(text).ok().filter(is_usable)
}
