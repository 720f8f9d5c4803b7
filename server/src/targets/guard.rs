//! The guard of outgoing calls: a job must not reach what only this machine can, such as a metadata
//! service or a database beside it. Names are looked at after they were resolved, by the same resolver
//! that the connection is made with, so that a name cannot change its mind in between.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use punctual::clock::{add, within};
use punctual::{Clock, Error, Result};
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::config::HttpConfig;
use crate::outgoing::Outgoing;

/// How long a name may take to be resolved when a URL is checked before it is kept.
const RESOLVED_WITHIN: Duration = Duration::from_secs(3);

/// Says what may be called.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    config: Arc<HttpConfig>,
    outgoing: Outgoing,
}

impl Guard {
    /// A guard with these lists.
    pub fn new(config: HttpConfig) -> Self {
        Self { config: Arc::new(config), outgoing: Outgoing::default() }
    }

    /// The same, for calls that leave in this way.
    #[must_use]
    pub fn through(self, outgoing: Outgoing) -> Self {
        Self { outgoing, ..self }
    }

    /// A client whose connections this guard lets through. It follows no redirects by itself, because
    /// each has to be looked at.
    pub fn client(&self) -> Result<reqwest::Client> {
        self.outgoing.client(|builder| builder.dns_resolver(Arc::new(self.clone())))
    }

    /// Refuses a URL that may not be called as far as can be seen by itself.
    pub fn check(&self, url: &Url) -> Result<()> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Error::invalid(format!("{:?} is no scheme to call", url.scheme())));
        }
        let Some(host) = url.host() else {
            return Err(Error::invalid("the URL names no host"));
        };
        let name = host.to_string();
        match host {
            url::Host::Ipv4(address) => self.check_address(IpAddr::V4(address), &name),
            url::Host::Ipv6(address) => self.check_address(IpAddr::V6(address), &name),
            url::Host::Domain(_) if self.config.deny.has_host(&name) => Err(denied(&name)),
            url::Host::Domain(_) => Ok(()),
        }
    }

    /// Refuses a URL whose host is, or is resolved to, only addresses that may not be called. A name that
    /// cannot be resolved now is let through: the call decides.
    pub(crate) async fn check_resolved(&self, url: &Url, clock: &dyn Clock) -> Result<()> {
        self.check(url)?;
        let Some(url::Host::Domain(name)) = url.host() else { return Ok(()) };
        let until = add(clock.now(), RESOLVED_WITHIN);
        match within(clock, until, tokio::net::lookup_host((name, 0))).await {
            Some(Ok(found)) => self.admit(name, found.collect()).map(|_| ()),
            Some(Err(_)) | None => Ok(()),
        }
    }

    /// Refuses a URL that a proxy would call for us, when its name leads to an address that may not be called. The
    /// proxy looks the name up again, so this holds only as far as both look up the same.
    pub(super) async fn check_proxied(&self, url: &Url) -> Result<()> {
        let Some(url::Host::Domain(name)) = url.host() else { return Ok(()) };
        // The resolver of the client lets the proxy itself through.
        if self.outgoing.proxy_for(url).is_none() && !self.outgoing.is_proxy(name) {
            return Ok(());
        }
        match tokio::net::lookup_host((name, 0)).await {
            Ok(mut found) => found.try_for_each(|one| self.check_address(one.ip(), name)),
            Err(_) if self.config.allow.has_host(name) => Ok(()),
            Err(error) => Err(Error::unavailable(format!(
                "{name} cannot be looked up, so that it is not known whether it is private; add the name to http.allow to let the proxy look it up"
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
            // Chosen by the configuration; who calls it as a target is refused by `check_proxied`.
            let is_proxy = guard.outgoing.is_proxy(&host);
            let admitted = if is_proxy { found } else { guard.admit(&host, found)? };
            Ok(Box::new(admitted.into_iter()) as Addrs)
        })
    }
}

/// Whether an address is not a public one: of this machine, of a private network, of the link, or of no
/// single host at all.
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
        // This network, shared space of carriers, protocol assignments, benchmarks, reserved.
        || a == 0
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (18..20).contains(&b))
        || a >= 240
}

fn is_private_v6(address: Ipv6Addr) -> bool {
    // Addresses that hold one of IPv4 are that one: mapped, compatible, translated, and of 6to4.
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
        // Only 2000::/3 is given out as public; of it, Teredo and documentation are not hosts.
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
    fn private_addresses_are_told_from_public_ones() {
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
    fn spellings_of_an_address_do_not_get_past() {
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
    fn what_a_name_resolves_to_is_looked_at() {
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
