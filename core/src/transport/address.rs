//! Address of a broker: `scheme://user:password@host:port`, for transports whose client library does not parse it. No error
//! and no `Debug` output contains the user or the password.

use std::fmt;

use crate::error::{Error, Result};

/// Form of a product's addresses.
#[derive(Clone, Copy, Debug)]
pub struct AddressForm<'a> {
    /// Subject of an error, such as "the address of the broker".
    pub subject: &'a str,
    /// Way out in an error, such as "use `mqtt://host:1883`".
    pub advice: &'a str,
    /// Known schemes.
    pub schemes: &'a [AddressScheme<'a>],
    /// Scheme of an address without one; none where it is required.
    pub scheme_default: Option<AddressScheme<'a>>,
    /// Whether an address may name several servers, separated by commas.
    pub has_several: bool,
}

/// Scheme of an address.
#[derive(Clone, Copy, Debug)]
pub struct AddressScheme<'a> {
    /// Name before `://`.
    pub name: &'a str,
    /// Port of a server without one.
    pub port: u16,
    /// Whether the connection is encrypted.
    pub is_encrypted: bool,
}

/// Parsed address.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerAddress {
    /// First server.
    pub server: HostAndPort,
    /// Other servers of the same cluster.
    pub others: Vec<HostAndPort>,
    /// User, decoded.
    pub user: Option<String>,
    /// Password, decoded.
    pub password: Option<String>,
    /// Whether the connection is encrypted.
    pub is_encrypted: bool,
}

/// Host and port of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostAndPort {
    /// Name or IP address, without brackets.
    pub host: String,
    /// Port, from 1.
    pub port: u16,
}

impl AddressForm<'_> {
    /// Parses an address.
    pub fn parse(&self, text: &str) -> Result<ServerAddress> {
        self.parse_parts(text.trim()).map_err(|reason| self.error(&reason))
    }

    /// Returns the error of an address that a transport refuses for a reason such as "it names no user".
    pub fn error(&self, reason: &str) -> Error {
        let Self { subject, advice, .. } = self;
        Error::invalid(format!("{subject} cannot be parsed: {reason}; {advice}"))
    }

    fn parse_parts(&self, text: &str) -> std::result::Result<ServerAddress, String> {
        let (scheme, rest) = match text.split_once("://") {
            Some((name, rest)) => {
                let known = self.schemes.iter().find(|scheme| scheme.name == name);
                (*known.ok_or_else(|| unknown_scheme(name))?, rest)
            }
            None => (self.scheme_default.ok_or("it has no scheme")?, text),
        };
        // A password may contain an '@', a host may not.
        let (credentials, servers) = match rest.rsplit_once('@') {
            Some((credentials, servers)) => (Some(credentials), servers),
            None => (None, rest),
        };
        let servers = servers.trim_end_matches('/').split(',').map(str::trim);
        let servers = servers.filter(|server| !server.is_empty());
        let mut servers = servers.map(|server| host_and_port(server, scheme.port));
        let server = servers.next().ok_or("it names no host")??;
        let others: Vec<HostAndPort> = servers.collect::<std::result::Result<_, _>>()?;
        if !self.has_several && !others.is_empty() {
            return Err("it names several servers".to_owned());
        }
        let (user, password) = match credentials.map(|text| text.split_once(':').ok_or(text)) {
            None => (None, None),
            Some(Ok((user, password))) => (Some(decoded(user)?), Some(decoded(password)?)),
            Some(Err(user)) => (Some(decoded(user)?), None),
        };
        let is_encrypted = scheme.is_encrypted;
        Ok(ServerAddress { server, others, user, password, is_encrypted })
    }
}

/// Returns the reason for an unknown scheme. What is not a scheme is not quoted, because it may be a password.
fn unknown_scheme(name: &str) -> String {
    let shown = Some(name).filter(|name| name.chars().all(|letter| letter.is_ascii_alphanumeric()));
    shown.map_or_else(
        || "it has no scheme".to_owned(),
        |name| format!("its scheme {name:?} is unknown"),
    )
}

/// Parses `host`, `host:port`, `[::1]` or `[::1]:port`. A reason quotes nothing, because a password may stand here by
/// mistake.
fn host_and_port(text: &str, port: u16) -> std::result::Result<HostAndPort, &'static str> {
    let (host, rest) = match text.strip_prefix('[') {
        Some(text) => text.split_once(']').ok_or("its host has a bracket that is not closed")?,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let is_ip = text.starts_with('[');
    let is_host = |letter: char| letter.is_alphanumeric() || "._-".contains(letter);
    if host.is_empty()
        || !host.chars().all(|letter| is_host(letter) || is_ip && ":%".contains(letter))
    {
        return Err("its host is empty or has a character that no host has");
    }
    let port = match rest.strip_prefix(':') {
        Some(port) => port.parse().ok().filter(|port| *port > 0),
        None => rest.is_empty().then_some(port),
    };
    let port = port.ok_or("its port is not a number from 1 to 65535")?;
    Ok(HostAndPort { host: host.to_owned(), port })
}

fn decoded(text: &str) -> std::result::Result<String, &'static str> {
    percent_decode(text)
        .ok_or("its user or password has a % that is not a code such as %40, or is not UTF-8")
}

impl fmt::Display for HostAndPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// Shows hosts and ports, separated by commas.
impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.server)?;
        self.others.iter().try_for_each(|server| write!(f, ",{server}"))
    }
}

impl fmt::Debug for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServerAddress").field(&self.to_string()).finish()
    }
}

/// Decodes percent-encoding such as `%40`; returns `None` for an incomplete code and for bytes that are not UTF-8.
/// Stricter than the crate `percent-encoding`, which keeps an incomplete code as it is: in a password that is a mistake.
pub fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
            bytes.push(u8::try_from(digit()? * 16 + digit()?).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: AddressScheme<'_> = AddressScheme { name: "mq", port: 1, is_encrypted: false };
    const FORM: AddressForm<'_> = AddressForm {
        subject: "the address of MQ",
        advice: "use mq://host:1",
        schemes: &[PLAIN, AddressScheme { name: "mqs", port: 2, is_encrypted: true }],
        scheme_default: None,
        has_several: false,
    };
    const CLUSTER: AddressForm<'_> =
        AddressForm { scheme_default: Some(PLAIN), has_several: true, ..FORM };

    #[test]
    fn servers_user_and_encryption_are_parsed_and_secrets_are_not_shown() {
        let address = FORM.parse(" mq://ada:s%40c@ret@broker.example:1884/ ").unwrap();
        assert_eq!(
            (address.user.as_deref(), address.password.as_deref()),
            (Some("ada"), Some("s@c@ret"))
        );
        assert_eq!(format!("{address:?}"), "ServerAddress(\"broker.example:1884\")");
        assert!(!address.is_encrypted);
        let address = FORM.parse("mqs://ada@[::1]").unwrap();
        assert_eq!((address.to_string().as_str(), address.is_encrypted), ("[::1]:2", true));
        assert_eq!((address.user.as_deref(), address.password), (Some("ada"), None));
        let address = CLUSTER.parse("one:10, two ,[::1]:3,[::1]").unwrap();
        assert_eq!(address.to_string(), "one:10,two:1,[::1]:3,[::1]:1");
        assert_eq!(address.user, None);
    }

    #[test]
    fn an_invalid_address_is_refused_without_its_password() {
        for (text, reason) in [
            ("", "no scheme"),
            ("secret", "no scheme"),
            ("http://ada:secret@h", "\"http\" is unknown"),
            ("ada:secret://@h", "no scheme"),
            ("mq://", "no host"),
            ("mq://ada:secret@", "no host"),
            ("mq://ada:secret", "port"),
            ("mq://ada:secret@h:port", "port"),
            ("mq://ada:secret@h:0", "port"),
            ("mq://ada:secret@h:70000", "port"),
            ("mq://ada:secret@:1", "host"),
            ("mq://ada:secret@ho st", "host"),
            ("mq://ada:secret@[::1", "bracket"),
            ("mq://ada:secret@h/topic", "host"),
            ("mq://ada:secret@h:1/topic", "port"),
            ("mq://ada:secret@h,i", "several"),
            ("mq://ada:secret%4@h", "%40"),
        ] {
            let error = FORM.parse(text).unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains("use mq://host:1"), "{text}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn codes_are_decoded_and_broken_ones_are_refused() {
        assert_eq!(percent_decode("s%40c@ret%C3%A9").as_deref(), Some("s@c@reté"));
        for broken in ["%", "%4", "%4@", "%zz", "%ff"] {
            assert_eq!(percent_decode(broken), None, "{broken}");
        }
    }
}
