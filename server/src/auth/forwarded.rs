//! Forwarded addresses: the address of the caller from `X-Forwarded-For` or `Forwarded`. Only headers of a trusted
//! forwarder are read. Each forwarder appends the address of its peer, so the last address that is not a trusted
//! forwarder is the caller's; addresses before it may be forged.

use std::net::{IpAddr, SocketAddr};

use axum::http::HeaderMap;
use axum::http::header::{FORWARDED, HeaderName};

use crate::config::Networks;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// Largest number of addresses that are read, from the end.
const HOPS_MAX: usize = 32;

/// Returns the address of the caller behind the peer of a connection.
pub(super) fn caller(peer: IpAddr, headers: &HeaderMap, forwarders: &Networks) -> IpAddr {
    if !forwarders.has_address(peer) {
        return peer;
    }
    let by_list = texts(headers, &X_FORWARDED_FOR);
    let by_pairs: Option<Vec<&str>> =
        texts(headers, &FORWARDED).map(|all| all.into_iter().map(for_of).collect());
    match (by_list, by_pairs) {
        (None, None) => peer,
        (Some(hops), None) | (None, Some(hops)) => last_untrusted(peer, &hops, forwarders),
        (Some(list), Some(pairs)) => {
            let found = last_untrusted(peer, &list, forwarders);
            // The forwarder sets only one of the headers; the other may be forged by the caller.
            let is_agreed = found == last_untrusted(peer, &pairs, forwarders);
            if is_agreed { found } else { peer }
        }
    }
}

/// Returns the elements of all lines of a header; none without the header.
fn texts<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<Vec<&'a str>> {
    let mut lines = headers.get_all(name).iter().peekable();
    lines.peek()?;
    let all = lines.flat_map(|line| line.to_str().unwrap_or("?").split(','));
    Some(all.map(str::trim).collect())
}

/// Returns the address in an element of `Forwarded`, such as `for=192.0.2.1;proto=https`.
fn for_of(element: &str) -> &str {
    let mut pairs = element.split(';').filter_map(|pair| pair.trim().split_once('='));
    let found = pairs.rfind(|(name, _)| name.trim().eq_ignore_ascii_case("for"));
    found.map_or("", |(_, value)| value.trim().trim_matches('"'))
}

fn last_untrusted(peer: IpAddr, hops: &[&str], forwarders: &Networks) -> IpAddr {
    let mut last = peer;
    for hop in hops.iter().rev().take(HOPS_MAX) {
        // Nothing behind an unreadable element is trusted.
        let Some(address) = read(hop) else { break };
        last = address;
        if !forwarders.has_address(address) {
            break;
        }
    }
    last
}

/// Parses an address, with or without a port.
fn read(text: &str) -> Option<IpAddr> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let address = bare.parse().ok();
    let address = address.or_else(|| text.parse::<SocketAddr>().ok().map(|one| one.ip()));
    address.map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(peer: &str, sent: &[(&str, &str)]) -> String {
        let trusted = ["10.0.0.0/8", "fd00::/8"].map(str::to_owned).to_vec();
        let mut headers = HeaderMap::new();
        for (name, value) in sent {
            headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        let forwarders = Networks::read(trusted).unwrap();
        caller(peer.parse().unwrap(), &headers, &forwarders).to_string()
    }

    // spec: C-6
    #[test]
    fn the_last_address_that_is_not_of_a_forwarder_is_the_callers() {
        let list = "x-forwarded-for";
        for (peer, sent, address) in [
            ("10.0.0.1", vec![], "10.0.0.1"),
            ("10.0.0.1", vec![(list, "192.0.2.7")], "192.0.2.7"),
            ("10.0.0.1", vec![(list, "1.1.1.1, 192.0.2.7")], "192.0.2.7"),
            ("10.0.0.1", vec![(list, "1.1.1.1, 192.0.2.7, 10.0.0.2")], "192.0.2.7"),
            ("10.0.0.1", vec![(list, "1.1.1.1"), (list, "192.0.2.7")], "192.0.2.7"),
            ("10.0.0.1", vec![(list, "10.0.0.3, 10.0.0.2")], "10.0.0.3"),
            ("10.0.0.1", vec![(list, "192.0.2.7, nonsense")], "10.0.0.1"),
            ("10.0.0.1", vec![(list, "192.0.2.7:4711")], "192.0.2.7"),
            ("fd00::1", vec![(list, "[2001:db8::7]:4711")], "2001:db8::7"),
            ("10.0.0.1", vec![(list, "::ffff:192.0.2.7")], "192.0.2.7"),
            ("10.0.0.1", vec![("forwarded", "for=192.0.2.7;proto=https")], "192.0.2.7"),
            ("10.0.0.1", vec![("forwarded", "for=1.1.1.1, For=\"[2001:db8::7]\"")], "2001:db8::7"),
            ("10.0.0.1", vec![("forwarded", "for=_hidden")], "10.0.0.1"),
            // Headers of other peers are ignored.
            ("192.0.2.9", vec![(list, "10.0.0.5")], "192.0.2.9"),
            // One of the two is forged.
            ("10.0.0.1", vec![(list, "1.1.1.1"), ("forwarded", "for=192.0.2.7")], "10.0.0.1"),
            ("10.0.0.1", vec![(list, "192.0.2.7"), ("forwarded", "for=192.0.2.7")], "192.0.2.7"),
        ] {
            assert_eq!(found(peer, &sent), address, "{peer} {sent:?}");
        }
    }
}
