//! Outgoing HTTP calls: one kind of client, which follows no redirects, uses the proxy and certificate
//! authorities of the configuration and not those of the environment, and sends its name.

use std::fmt;
use std::sync::Arc;

use punctual::{Error, Result};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, ClientBuilder, Proxy};
use url::{Host, Url};

use crate::config::{Networks, OutgoingConfig, proxy_url};
use crate::targets::resolve;

/// Largest size of the file with certificate authorities in bytes.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Proxy and additional certificate authorities of outgoing calls.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct OutgoingCalls(Arc<Settings>);

#[derive(Default, PartialEq, Eq)]
struct Settings {
    authorities: Vec<u8>,
    proxy: Option<Url>,
    no_proxy: Networks,
}

impl OutgoingCalls {
    /// Reads the files and addresses of a configuration; fails when one cannot be used.
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
                    _ => return Err(refused(&"contains no PEM certificates")),
                }
            }
            None => Vec::new(),
        };
        let proxy = match &config.proxy {
            Some(address) => {
                let refused = || Error::invalid("outgoing.proxy is not an http or https URL");
                Some(proxy_url(&resolve(address)?).ok_or_else(refused)?)
            }
            None => None,
        };
        Ok(Self(Arc::new(Settings { authorities, proxy, no_proxy: config.no_proxy.clone() })))
    }

    /// Returns a client with these settings, customized by `more`.
    pub(crate) fn client(
        &self,
        more: impl FnOnce(ClientBuilder) -> ClientBuilder,
    ) -> Result<Client> {
        // Only the first call in a process takes effect.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let unusable = |error| Error::internal("an HTTP client cannot be created").caused_by(error);
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

    /// Returns the proxy of a call, if it uses one.
    pub(crate) fn proxy_for(&self, url: &Url) -> Option<&Url> {
        let bypasses_proxy = match url.host()? {
            Host::Domain(name) => self.0.no_proxy.has_host(name),
            Host::Ipv4(address) => self.0.no_proxy.has_address(address.into()),
            Host::Ipv6(address) => self.0.no_proxy.has_address(address.into()),
        };
        self.0.proxy.as_ref().filter(|_| !bypasses_proxy)
    }

    /// Returns whether a name is the host of the proxy.
    pub(crate) fn is_proxy(&self, name: &str) -> bool {
        let proxy = self.0.proxy.as_ref().and_then(Url::host_str);
        proxy.is_some_and(|host| host.eq_ignore_ascii_case(name))
    }
}

impl fmt::Debug for OutgoingCalls {
    /// Omits the password of the proxy.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let proxy = self.0.proxy.as_ref().and_then(Url::host_str);
        f.debug_struct("OutgoingCalls").field("proxy", &proxy).finish_non_exhaustive()
    }
}

fn read(path: &std::path::Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}
