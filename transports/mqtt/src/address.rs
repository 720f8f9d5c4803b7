//! Addresses of a broker: `mqtt://user:password@host:1883`, or `mqtts://` for TLS. No error text and no `Debug`
//! output contains the password.

use std::fmt;

use punctual::transport::address::percent_decode;
use punctual::{Error, Result};

use crate::codec::TEXT_MAX;

const FORM: &str = "use mqtt://user:password@host:1883, or mqtts://host:8883 for TLS";

/// A parsed address.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) is_encrypted: bool,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
}

impl Address {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        read(text.trim()).map_err(|why| {
            Error::invalid(format!("the address of the broker cannot be parsed: {why}; {FORM}"))
        })
    }

    /// Returns host and port, for texts.
    pub(crate) fn server(&self) -> String {
        if self.host.contains(':') {
            return format!("[{}]:{}", self.host, self.port);
        }
        format!("{}:{}", self.host, self.port)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Address").field(&self.server()).finish()
    }
}

fn read(text: &str) -> std::result::Result<Address, &'static str> {
    let (scheme, rest) = text.split_once("://").ok_or("it has no scheme")?;
    let (is_encrypted, port) = match scheme {
        "mqtt" | "tcp" => (false, 1883),
        "mqtts" | "ssl" => (true, 8883),
        _ => return Err("its scheme is neither mqtt nor mqtts"),
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (credentials, server) = match rest.rsplit_once('@') {
        Some((credentials, server)) => (Some(credentials), server),
        None => (None, rest),
    };
    if server.contains(['/', '?', '#']) {
        return Err("it has text after the port");
    }
    let (host, port) = match server.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, port_of(rest.strip_prefix(':'), port)?),
        None => match server.split_once(':') {
            Some((host, written)) => (host, port_of(Some(written), port)?),
            None => (server, port),
        },
    };
    if host.is_empty() || host.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("it has no host");
    }
    let mut address =
        Address { host: host.to_owned(), port, is_encrypted, user: None, password: None };
    if let Some(credentials) = credentials {
        let (user, password) = match credentials.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (credentials, None),
        };
        address.user = Some(decoded(user)?);
        address.password = password.map(decoded).transpose()?;
    }
    Ok(address)
}

fn port_of(written: Option<&str>, default: u16) -> std::result::Result<u16, &'static str> {
    match written {
        None => Ok(default),
        Some(written) => written
            .parse()
            .ok()
            .filter(|port| *port > 0)
            .ok_or("its port is not a number from 1 to 65535"),
    }
}

/// Decodes a user or a password.
fn decoded(text: &str) -> std::result::Result<String, &'static str> {
    let text = percent_decode(text)
        .ok_or("its user or password has a % that is not a code such as %40, or is not UTF-8")?;
    if text.len() > TEXT_MAX || text.contains('\0') {
        return Err("its user or password is longer than MQTT allows, or contains a zero byte");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_port_are_shown_and_the_password_is_not() {
        let address = Address::parse("mqtt://ada:s%40cret@broker.example:1884/").unwrap();
        assert_eq!(address.server(), "broker.example:1884");
        assert_eq!(address.password.as_deref(), Some("s@cret"));
        assert!(!format!("{address:?}").contains("cret"));
        let address = Address::parse("mqtts://[::1]").unwrap();
        assert!(address.is_encrypted && address.user.is_none());
        assert_eq!(address.server(), "[::1]:8883");
    }

    #[test]
    fn an_invalid_address_is_refused_without_its_password() {
        for text in [
            "http://u:secret@h",
            "secret",
            "",
            "mqtt://u:secret@h:port",
            "mqtt://u:secret@h:0",
            "mqtt://u:secret@",
            "mqtt://u:secret%4@h",
            "mqtt://u:secret@h/topic",
        ] {
            let error = Address::parse(text).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
            assert!(error.contains("mqtt://user"), "{error}");
        }
    }
}
