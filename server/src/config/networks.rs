//! Lists of hosts, addresses and networks that are allowed, denied or trusted.

use std::net::{IpAddr, Ipv6Addr};

use punctual::{Error, Result};
use serde::{Deserialize, Serialize};

/// Largest number of entries of a list.
const ENTRIES_MAX: usize = 1_000;

/// A list of hosts, addresses and networks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Networks {
    entries: Vec<(String, Entry)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    /// An address and its prefix length.
    Network(u128, u32),
    Host(String),
    /// `*.example.com`
    Below(String),
}

impl Networks {
    /// Parses a list.
    pub fn read(texts: Vec<String>) -> Result<Self> {
        if texts.len() > ENTRIES_MAX {
            return Err(Error::invalid(format!(
                "{} entries are too many; at most {ENTRIES_MAX} are allowed",
                texts.len()
            )));
        }
        let entries = texts.into_iter().map(|text| Ok((text.clone(), entry(&text)?)));
        Ok(Self { entries: entries.collect::<Result<_>>()? })
    }

    /// Returns the loopback addresses.
    pub fn loopback() -> Self {
        let listed = ["127.0.0.0/8", "::1"].map(str::to_owned).to_vec();
        Self::read(listed).unwrap_or_default()
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the first entry that is a host name.
    pub fn first_host(&self) -> Option<&str> {
        let is_host = |entry: &Entry| !matches!(entry, Entry::Network(..));
        self.entries.iter().find(|(_, entry)| is_host(entry)).map(|(text, _)| text.as_str())
    }

    /// Returns whether an address is listed.
    pub fn has_address(&self, address: IpAddr) -> bool {
        let bits = bits(address);
        self.entries.iter().any(|(_, entry)| match entry {
            Entry::Network(network, prefix) => (bits ^ network) & mask(*prefix) == 0,
            _ => false,
        })
    }

    /// Returns whether a host name is listed.
    pub fn has_host(&self, host: &str) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        self.entries.iter().any(|(_, entry)| match entry {
            Entry::Host(name) => *name == host,
            Entry::Below(domain) => {
                host.strip_suffix(domain.as_str()).is_some_and(|rest| rest.ends_with('.'))
            }
            Entry::Network(..) => false,
        })
    }
}

fn entry(text: &str) -> Result<Entry> {
    let trimmed = text.trim();
    let (base, prefix) = match trimmed.split_once('/') {
        Some((base, prefix)) => (base, Some(prefix)),
        None => (trimmed, None),
    };
    if let Ok(address) = base.parse::<IpAddr>() {
        let (own, most) = if address.is_ipv4() { (96, 32) } else { (0, 128) };
        let prefix = match prefix {
            None => most,
            Some(prefix) => {
                prefix.parse().ok().filter(|prefix| *prefix <= most).ok_or_else(|| {
                    Error::invalid(format!("{text:?} is not a network; use one such as 10.0.0.0/8"))
                })?
            }
        };
        return Ok(Entry::Network(bits(address), own + prefix));
    }
    let (below, name) = match base.strip_prefix("*.") {
        Some(name) => (true, name),
        None => (false, base),
    };
    let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    if prefix.is_some() || name.is_empty() || !name.chars().all(letter) {
        return Err(Error::invalid(format!(
            "{text:?} is not a host, address or network; use one such as intranet.example.com, *.example.com, 10.0.0.5 or 10.0.0.0/8"
        )));
    }
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    Ok(if below { Entry::Below(name) } else { Entry::Host(name) })
}

/// Returns an address as 128 bits; an IPv4 address as IPv4-mapped IPv6.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => Ipv6Addr::to_bits(address),
    }
}

fn mask(prefix: u32) -> u128 {
    u128::MAX.checked_shl(128 - prefix).unwrap_or(0)
}

impl TryFrom<Vec<String>> for Networks {
    type Error = Error;

    fn try_from(texts: Vec<String>) -> Result<Self> {
        Self::read(texts)
    }
}

impl From<Networks> for Vec<String> {
    fn from(networks: Networks) -> Self {
        networks.entries.into_iter().map(|(text, _)| text).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_match_addresses_and_hosts() {
        let list = ["10.0.0.0/8", "192.168.1.7", "fd00::/8", "intranet.example.com", "*.corp"];
        let networks = Networks::read(list.map(str::to_owned).to_vec()).unwrap();
        for (address, listed) in [
            ("10.255.0.1", true),
            ("11.0.0.1", false),
            ("192.168.1.7", true),
            ("192.168.1.8", false),
            ("fd12::1", true),
            ("fe80::1", false),
            ("::ffff:10.1.1.1", true),
        ] {
            assert_eq!(networks.has_address(address.parse().unwrap()), listed, "{address}");
        }
        for (host, listed) in [
            ("Intranet.example.com", true),
            ("a.intranet.example.com", false),
            ("a.corp", true),
            ("corp", false),
            ("acorp", false),
        ] {
            assert_eq!(networks.has_host(host), listed, "{host}");
        }
        for wrong in ["10.0.0.0/33", "a b", "", "host/8"] {
            assert!(Networks::read(vec![wrong.to_owned()]).is_err(), "{wrong}");
        }
    }
}
