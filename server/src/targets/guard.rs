//! Guard of outgoing calls: jobs must not reach private addresses, such as a metadata service or a local
//! database. Names are checked after resolution, by the same resolver that the connection uses, so that a name
//! cannot change its address in between.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use punctual::clock::{add, within};
use punctual::{Clock, Error, Result};
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::config::HttpConfig;
use crate::outgoing::OutgoingCalls;

/// Timeout of resolving a name when a URL is checked before it is stored.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(3);

/// Rules of addresses that may be called.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    config: Arc<HttpConfig>,
    outgoing: OutgoingCalls,
}

impl Guard {
    /// Returns a guard with these lists.
    pub fn new(config: HttpConfig) -> Self {
        Self { config: Arc::new(config), outgoing: OutgoingCalls::default() }
    }

    /// Sets the proxy and certificate authorities of the calls.
    #[must_use]
    pub fn through(self, outgoing: OutgoingCalls) -> Self {
        Self { outgoing, ..self }
    }

    /// Returns a client whose connections are checked by this guard. It follows no redirects, because each has to be
    /// checked.
    pub fn client(&self) -> Result<reqwest::Client> {
        self.outgoing.client(|builder| builder.dns_resolver(Arc::new(self.clone())))
    }

    /// Refuses a URL by its scheme and host, without resolving names.
    pub fn check(&self, url: &Url) -> Result<()> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Error::invalid(format!(
                "the scheme {:?} is not supported; use http or https",
                url.scheme()
            )));
        }
        let Some(host) = url.host() else {
            return Err(Error::invalid("the URL has no host"));
        };
        let name = host.to_string();
        match host {
            url::Host::Ipv4(address) => self.check_address(IpAddr::V4(address), &name),
            url::Host::Ipv6(address) => self.check_address(IpAddr::V6(address), &name),
            url::Host::Domain(_) if self.config.deny.has_host(&name) => Err(denied(&name)),
            url::Host::Domain(_) => Ok(()),
        }
    }

    /// Refuses a URL whose host resolves only to addresses that may not be called. A name that cannot be resolved
    /// now is accepted and checked at the call.
    pub(crate) async fn check_resolved(&self, url: &Url, clock: &dyn Clock) -> Result<()> {
        self.check(url)?;
        let Some(url::Host::Domain(name)) = url.host() else { return Ok(()) };
        let until = add(clock.now(), RESOLVE_TIMEOUT);
        match within(clock, until, tokio::net::lookup_host((name, 0))).await {
            Some(Ok(found)) => self.admit(name, found.collect()).map(|_| ()),
            Some(Err(_)) | None => Ok(()),
        }
    }

    /// Refuses a URL that a proxy would call when its name resolves to an address that may not be called. The
    /// proxy resolves the name again, so this holds only if both get the same addresses.
    pub(super) async fn check_proxied(&self, url: &Url) -> Result<()> {
        let Some(url::Host::Domain(name)) = url.host() else { return Ok(()) };
        // The resolver of the client does not check the proxy itself.
        if self.outgoing.proxy_for(url).is_none() && !self.outgoing.is_proxy(name) {
            return Ok(());
        }
        match tokio::net::lookup_host((name, 0)).await {
            Ok(mut found) => found.try_for_each(|one| self.check_address(one.ip(), name)),
            Err(_) if self.config.allow.has_host(name) => Ok(()),
            Err(error) => Err(Error::unavailable(format!(
                "{name} cannot be resolved, so it is unknown whether it is private; add the name to http.allow to let the proxy resolve it"
            ))
            .caused_by(error)),
        }
    }

    fn check_address(&self, address: IpAddr, name: &str) -> Result<()> {
        let config = &self.config;
        if config.deny.has_address(address) || config.deny.has_host(name) {
            return Err(denied(name));
        }
        if !is_private(address) || config.allow.has_address(address) || config.allow.has_host(name)
        {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "{name} is {address}, a private address; add it to http.allow of the configuration to call it"
        )))
    }

    fn admit(&self, name: &str, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>> {
        let mut refusal = None;
        let mut admitted = Vec::new();
        for address in found {
            match self.check_address(address.ip(), name) {
                Ok(()) => admitted.push(address),
                Err(error) => refusal = Some(error),
            }
        }
        match (admitted.is_empty(), refusal) {
            (true, Some(error)) => Err(error),
            _ => Ok(admitted),
        }
    }
}

fn denied(name: &str) -> Error {
    Error::invalid(format!("{name} is in http.deny of the configuration"))
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.clone();
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let found: Vec<SocketAddr> =
                tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            // The proxy is chosen by the configuration; `check_proxied` refuses it as a target.
            let is_proxy = guard.outgoing.is_proxy(&host);
            let admitted = if is_proxy { found } else { guard.admit(&host, found)? };
            Ok(Box::new(admitted.into_iter()) as Addrs)
        })
    }
}

/// Returns whether an address is not public: loopback, private, link-local, multicast or reserved.
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_private_v4(address),
        IpAddr::V6(address) => is_private_v6(address),
    }
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        // This network, carrier-grade NAT, protocol assignments, benchmarks, reserved.
        || a == 0
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (18..20).contains(&b))
        || a >= 240
}

fn is_private_v6(address: Ipv6Addr) -> bool {
    // Addresses that embed an IPv4 address are checked as that: mapped, compatible, translated, 6to4.
    if let Some(v4) = address.to_ipv4() {
        return is_private_v4(v4);
    }
    let segments = address.segments();
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match segments {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            is_private_v4(v4(high, low))
        }
        // Only 2000::/3 is public; in it, Teredo and documentation are not.
        [0x2001, 0 | 0xdb8, ..] => true,
        [first, ..] => first & 0xe000 != 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Networks;

    fn networks(list: &[&str]) -> Networks {
        Networks::read(list.iter().map(|text| (*text).to_owned()).collect()).unwrap()
    }

    #[test]
    fn private_and_public_addresses_are_distinguished() {
        for (address, private) in [
            ("127.0.0.1", true),
            ("127.8.9.1", true),
            ("10.1.2.3", true),
            ("172.16.0.1", true),
            ("172.32.0.1", false),
            ("192.168.0.1", true),
            ("169.254.169.254", true),
            ("100.64.0.1", true),
            ("100.128.0.1", false),
            ("0.0.0.0", true),
            ("255.255.255.255", true),
            ("224.0.0.1", true),
            ("198.18.0.1", true),
            ("8.8.8.8", false),
            ("::1", true),
            ("::", true),
            ("fe80::1", true),
            ("fd00:ec2::254", true),
            ("ff02::1", true),
            ("::ffff:127.0.0.1", true),
            ("::ffff:8.8.8.8", false),
            ("64:ff9b::a00:1", true),
            ("64:ff9b::808:808", false),
            ("2002:7f00:1::", true),
            ("2001:db8::1", true),
            ("2606:4700:4700::1111", false),
        ] {
            assert_eq!(is_private(address.parse().unwrap()), private, "{address}");
        }
    }

    #[test]
    fn spellings_of_an_address_do_not_bypass_the_guard() {
        let guard = Guard::default();
        for url in [
            "http://127.0.0.1/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://017700000001/",
            "http://[::1]/",
            "http://[::ffff:7f00:1]/",
            "http://169.254.169.254/latest/meta-data/",
            "http://user@10.0.0.1/",
        ] {
            let error = guard.check(&Url::parse(url).unwrap()).unwrap_err().to_string();
            assert!(error.contains("http.allow"), "{url}: {error}");
        }
        guard.check(&Url::parse("https://example.com/").unwrap()).unwrap();
        assert!(guard.check(&Url::parse("ftp://example.com/").unwrap()).is_err());
    }

    #[test]
    fn resolved_addresses_are_checked() {
        let private = vec![SocketAddr::from(([10, 0, 0, 5], 0))];
        let mixed = vec![private[0], SocketAddr::from(([8, 8, 8, 8], 0))];
        let guard = Guard::default();
        assert!(guard.admit("evil.example.com", private.clone()).is_err());
        assert_eq!(guard.admit("mixed.example.com", mixed.clone()).unwrap(), [mixed[1]]);
        for allow in [&["10.0.0.0/8"][..], &["intranet"][..]] {
            let config = HttpConfig { allow: networks(allow), ..HttpConfig::default() };
            assert_eq!(Guard::new(config).admit("intranet", private.clone()).unwrap(), private);
        }
        let config = HttpConfig { deny: networks(&["8.8.8.8"]), ..HttpConfig::default() };
        assert!(Guard::new(config).admit("mixed.example.com", mixed).is_err());
    }
}
