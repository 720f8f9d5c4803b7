//! Where Service Bus is, as the connection string that its portal gives. Nothing here is ever shown with
//! its key.

use std::fmt;

use punctual::wire::Wrapping;
use punctual::{Error, Result};

const FORM: &str = "it looks like Endpoint=sb://name.servicebus.windows.net/;SharedAccessKeyName=policy;SharedAccessKey=key";
const PORT_TLS: u16 = 5671;
const PORT_PLAIN: u16 = 5672;

/// How we say who we are.
#[derive(Clone)]
pub(crate) enum Credential {
    /// A policy and its key, with which signatures are made.
    Key { policy: String, key: String },
    /// A signature that somebody else made.
    Signature(String),
}

/// A connection string that was understood.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) is_encrypted: bool,
    pub(crate) credential: Credential,
    /// The one queue or topic it is for, when it is for one alone.
    pub(crate) entity: Option<String>,
    /// What messages are wrapped in, when it says so.
    pub(crate) wrapping: Option<Wrapping>,
}

#[derive(Default)]
struct Parts {
    endpoint: Option<String>,
    policy: Option<String>,
    key: Option<String>,
    signature: Option<String>,
    entity: Option<String>,
    envelope: Option<String>,
    source: Option<String>,
    is_emulator: bool,
}

impl Address {
    /// Understands a connection string.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let parts = Parts::read(text)?;
        let endpoint = parts.endpoint.ok_or_else(|| missing("Endpoint"))?;
        let (host, port) = place(&endpoint)?;
        let credential = match (parts.policy, parts.key, parts.signature) {
            (_, _, Some(signature)) => Credential::Signature(signature),
            (Some(policy), Some(key), None) => Credential::Key { policy, key },
            (None, ..) => return Err(missing("SharedAccessKeyName")),
            (_, None, _) => return Err(missing("SharedAccessKey")),
        };
        let is_encrypted = !parts.is_emulator;
        let port = port.unwrap_or(if is_encrypted { PORT_TLS } else { PORT_PLAIN });
        let wrapping = Wrapping::parse(parts.envelope.as_deref(), parts.source.as_deref())?;
        Ok(Self { host, port, is_encrypted, credential, entity: parts.entity, wrapping })
    }

    /// Host and port, for people.
    pub(crate) fn place(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Address").field(&self.place()).finish()
    }
}

impl Parts {
    fn read(text: &str) -> Result<Self> {
        let mut parts = Self::default();
        for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
            // A key ends in an equals sign more often than not.
            let (name, value) = part.split_once('=').ok_or_else(|| {
                Error::invalid(format!("the connection string has a part without a value; {FORM}"))
            })?;
            let value = value.trim().to_owned();
            match name.trim().to_ascii_lowercase().as_str() {
                "endpoint" => parts.endpoint = Some(value),
                "sharedaccesskeyname" => parts.policy = Some(value),
                "sharedaccesskey" => parts.key = Some(value),
                "sharedaccesssignature" => parts.signature = Some(value),
                "envelope" => parts.envelope = Some(value),
                "source" => parts.source = Some(value),
                "entitypath" => parts.entity = Some(value),
                "usedevelopmentemulator" => {
                    parts.is_emulator = value.eq_ignore_ascii_case("true");
                }
                _ => {
                    return Err(Error::invalid(format!(
                        "the connection string has a part that is not known here; {FORM}"
                    )));
                }
            }
        }
        Ok(parts)
    }
}

fn missing(part: &str) -> Error {
    Error::invalid(format!("the connection string has no {part}; {FORM}"))
}

/// The host and the port of an endpoint such as `sb://name.servicebus.windows.net/`.
fn place(endpoint: &str) -> Result<(String, Option<u16>)> {
    let wrong =
        || Error::invalid(format!("the Endpoint of the connection string is wrong; {FORM}"));
    let rest = endpoint.strip_prefix("sb://").ok_or_else(wrong)?;
    let authority = rest.trim_end_matches('/');
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) => (host, Some(port.parse().map_err(|_| wrong())?)),
        None => (authority, None),
    };
    let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if host.is_empty() || !host.chars().all(is_host) {
        return Err(wrong());
    }
    Ok((host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_string_is_understood_and_its_key_is_not_shown() {
        let address = Address::parse(
            "Endpoint=sb://shop.servicebus.windows.net/;SharedAccessKeyName=root;SharedAccessKey=c2VjcmV0PQ==;EntityPath=orders",
        )
        .unwrap();
        assert_eq!(address.place(), "shop.servicebus.windows.net:5671");
        assert!(address.is_encrypted);
        assert_eq!(address.entity.as_deref(), Some("orders"));
        assert!(
            matches!(&address.credential, Credential::Key { key, .. } if key == "c2VjcmV0PQ==")
        );
        assert!(!format!("{address:?}").contains("c2Vj"));
    }

    #[test]
    fn an_emulator_is_reached_without_tls() {
        let text = "Endpoint=sb://localhost;SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true;";
        let address = Address::parse(text).unwrap();
        assert_eq!((address.place().as_str(), address.is_encrypted), ("localhost:5672", false));
    }

    #[test]
    fn a_wrong_connection_string_is_refused_without_its_key() {
        for text in [
            "",
            "secret",
            "Endpoint=sb://h/;SharedAccessKey=secret",
            "Endpoint=sb://h/;SharedAccessKeyName=secret",
            "Endpoint=amqp://u:secret@h/;SharedAccessKeyName=a;SharedAccessKey=secret",
            "Endpoint=sb://h:secret/;SharedAccessKeyName=a;SharedAccessKey=secret",
            "Endpoint=sb://h/;secret=secret",
        ] {
            let error = Address::parse(text).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
            assert!(error.contains("Endpoint=sb://"), "{error}");
        }
    }
}
