//! The section `[outgoing]`: how this server calls others over HTTP.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use url::Url;

use super::Networks;
use crate::spec::Secret;

/// How this server calls others over HTTP: targets of jobs, webhooks, the provider of sign-ins and the collector of
/// telemetry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OutgoingConfig {
    /// A file in PEM with certificate authorities that are trusted besides the usual ones.
    pub ca_file: Option<PathBuf>,
    /// The proxy that calls go through, such as `http://proxy.example.com:3128`; may hold a name and a password.
    pub proxy: Option<Secret>,
    /// Hosts, addresses and networks that are called without the proxy.
    pub no_proxy: Networks,
}

impl OutgoingConfig {
    /// Returns what is wrong with the address of the proxy.
    pub(super) fn problem(&self) -> Option<String> {
        let text = self.proxy.as_ref()?.plain()?;
        proxy_url(text).is_none().then(|| {
            // Not repeated: it may hold a password.
            "it must be a URL with http or https and a host, such as \"http://proxy.example.com:3128\""
                .to_owned()
        })
    }
}

/// Reads the address of a proxy.
pub(crate) fn proxy_url(text: &str) -> Option<Url> {
    let is_usable = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
    Url::parse(text).ok().filter(is_usable)
}
