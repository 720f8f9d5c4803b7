//! Addresses of a cluster: `host:port`, several separated by commas, or the same after `kafka://` with a user and a
//! password. No error text and no `Debug` output contains the password.

use punctual::transport::address::percent_decode;
use punctual::{Error, Result};

/// Example shown in the error for an invalid address.
const EXAMPLE: &str = "use kafka://user:password@host:9092,host:9092 or host:9092";
const PORT_DEFAULT: &str = "9092";

/// A parsed address.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// Hosts and ports separated by commas, as the client library expects them; safe to show.
    pub(crate) servers: String,
    pub(crate) login: Option<Login>,
    /// Whether the connection is encrypted (`kafkas://`).
    pub(crate) tls: bool,
}

/// Credentials for SASL PLAIN.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) password: String,
}

impl Address {
    /// Parses an address; the scheme `kafkas://` stands for encryption.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let (scheme, rest) = text.trim().split_once("://").unwrap_or(("kafka", text.trim()));
        let tls = match scheme {
            "kafka" => false,
            "kafkas" => true,
            other => {
                return Err(Error::invalid(format!(
                    "the address of Kafka has the unknown scheme {other:?}; {EXAMPLE}"
                )));
            }
        };
        // A password may contain an '@', a host may not.
        let (login, servers) = match rest.rsplit_once('@') {
            Some((login, servers)) => (Some(Login::parse(login)?), servers),
            None => (None, rest),
        };
        let servers = servers.trim_end_matches('/').split(',').map(str::trim);
        let servers: Vec<String> =
            servers.filter(|one| !one.is_empty()).map(server).collect::<Result<_>>()?;
        if servers.is_empty() {
            return Err(Error::invalid(format!("the address of Kafka names no host; {EXAMPLE}")));
        }
        Ok(Self { servers: servers.join(","), login, tls })
    }
}

impl Login {
    fn parse(text: &str) -> Result<Self> {
        let wrong = || {
            Error::invalid(format!(
                "the user or password in the address of Kafka cannot be parsed; {EXAMPLE}"
            ))
        };
        let (user, password) = text.split_once(':').ok_or_else(wrong)?;
        let (user, password) = (percent_decode(user), percent_decode(password));
        match (user, password) {
            (Some(user), Some(password)) if !user.is_empty() => Ok(Self { user, password }),
            _ => Err(wrong()),
        }
    }
}

/// Parses one host and adds the default port if it has none.
fn server(text: &str) -> Result<String> {
    let wrong =
        || Error::invalid(format!("the address of Kafka cannot be parsed at {text:?}; {EXAMPLE}"));
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port),
        _ => (text, PORT_DEFAULT),
    };
    let bracketed = host.starts_with('[') && host.ends_with(']');
    let is_host = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    if host.is_empty() || !(bracketed || host.chars().all(is_host)) || port.parse::<u16>().is_err()
    {
        return Err(wrong());
    }
    Ok(format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_user_and_encryption_are_parsed() {
        let plain = Address::parse("one:1, two ,[::1]:3,[::1]").unwrap();
        assert_eq!(plain.servers, "one:1,two:9092,[::1]:3,[::1]:9092");
        assert!(plain.login.is_none() && !plain.tls);
        let full = Address::parse("kafkas://ada:s%40c@ret@one:1,two:2/").unwrap();
        let login = full.login.unwrap();
        assert_eq!((login.user.as_str(), login.password.as_str()), ("ada", "s@c@ret"));
        assert_eq!((full.servers.as_str(), full.tls), ("one:1,two:2", true));
    }

    #[test]
    fn an_invalid_address_is_refused_without_its_password() {
        for text in [
            "",
            "kafka://",
            "http://ada:secret@h:1",
            "kafka://ada:secret@h:port",
            "kafka://ada:secret@h:70000",
            "kafka://ada:secret@",
            "kafka://adasecret@h",
            "kafka://ada:secret%4@h",
            "kafka://:secret@h",
            "ho st:1",
        ] {
            let error = Address::parse(text).err().unwrap().to_string();
            assert!(!error.contains("secret") && error.contains("Kafka"), "{text}: {error}");
        }
    }
}
