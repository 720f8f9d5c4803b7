//! How this server calls others over HTTP: by one kind of client, which follows no redirects by itself, uses the proxy
//! and the certificate authorities of the configuration and none of the environment, and sends its name.

use std::fmt;
use std::sync::Arc;

use punctual::{Error, Result};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, ClientBuilder, Proxy};
use url::{Host, Url};

use crate::config::{Networks, OutgoingConfig, proxy_url};
use crate::targets::resolve;

/// The most bytes of a file with certificate authorities.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// How calls leave this server: the proxy they go through, and the certificate authorities that are trusted besides
/// the usual ones.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Outgoing(Arc<Settings>);

#[derive(Default, PartialEq, Eq)]
struct Settings {
    authorities: Vec<u8>,
    proxy: Option<Url>,
    no_proxy: Networks,
}

impl Outgoing {
    /// Reads what a configuration names; refuses files and addresses that cannot be used.
    pub fn load(config: &OutgoingConfig) -> Result<Self> {
        let authorities = match &config.ca_file {
            Some(path) => {
                let refused = |why: &dyn fmt::Display| {
                    Error::invalid(format!("outgoing.ca_file: {} {why}", path.display()))
                };
                let bytes =
                    read(path).map_err(|error| refused(&format!("cannot be read: {error}")))?;
                match Certificate::from_pem_bundle(&bytes) {
                    Ok(found) if !found.is_empty() => bytes,
                    _ => return Err(refused(&"holds no certificates in PEM")),
                }
            }
            None => Vec::new(),
        };
        let proxy = match &config.proxy {
            Some(address) => {
                let refused = || Error::invalid("outgoing.proxy is no URL with http or https");
                Some(proxy_url(&resolve(address)?).ok_or_else(refused)?)
            }
            None => None,
        };
        Ok(Self(Arc::new(Settings { authorities, proxy, no_proxy: config.no_proxy.clone() })))
    }

    /// Returns a client as all of ours are, after `more` was said of it.
    pub(crate) fn client(
        &self,
        more: impl FnOnce(ClientBuilder) -> ClientBuilder,
    ) -> Result<Client> {
        // The first one who asks decides for the process; who was first does not matter.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let unusable = |error| Error::internal("a client for HTTP cannot be made").caused_by(error);
        let mut builder = Client::builder()
            .redirect(Policy::none())
            .no_proxy()
            .user_agent(concat!("punctual/", env!("CARGO_PKG_VERSION")));
        if !self.0.authorities.is_empty() {
            let found = Certificate::from_pem_bundle(&self.0.authorities).map_err(unusable)?;
            builder = builder.tls_certs_merge(found);
        }
        if self.0.proxy.is_some() {
            let outgoing = self.clone();
            builder = builder.proxy(Proxy::custom(move |url| outgoing.proxy_for(url).cloned()));
        }
        more(builder).build().map_err(unusable)
    }

    /// Returns the proxy that a call goes through.
    pub(crate) fn proxy_for(&self, url: &Url) -> Option<&Url> {
        let past = match url.host()? {
            Host::Domain(name) => self.0.no_proxy.has_host(name),
            Host::Ipv4(address) => self.0.no_proxy.has_address(address.into()),
            Host::Ipv6(address) => self.0.no_proxy.has_address(address.into()),
        };
        self.0.proxy.as_ref().filter(|_| !past)
    }

    /// Returns whether a name is that of the proxy itself.
    pub(crate) fn is_proxy(&self, name: &str) -> bool {
        let proxy = self.0.proxy.as_ref().and_then(Url::host_str);
        proxy.is_some_and(|host| host.eq_ignore_ascii_case(name))
    }
}

impl fmt::Debug for Outgoing {
    /// Without the proxy's password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let proxy = self.0.proxy.as_ref().and_then(Url::host_str);
        f.debug_struct("Outgoing").field("proxy", &proxy).finish_non_exhaustive()
    }
}

fn read(path: &std::path::Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}
