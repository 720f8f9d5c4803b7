//! Address of Service Bus: the connection string of its portal. The key is never shown.

use std::fmt;

use punctual::backend::transport::address::{AddressForm, AddressScheme, HostAndPort};
use punctual::backend::wire::Wrapping;
use punctual::{Error, Result};

const FORM: &str = "expected Endpoint=sb://name.servicebus.windows.net/;SharedAccessKeyName=policy;SharedAccessKey=key";
const PORT_TLS: u16 = 5671;
const PORT_PLAIN: u16 = 5672;

/// Credentials of the connection string.
#[derive(Clone)]
pub(crate) enum Credential {
    /// Policy and its key, from which tokens are signed.
    Key { policy: String, key: String },
    /// Token that was signed elsewhere.
    Signature(String),
}

/// Parsed connection string.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) is_encrypted: bool,
    pub(crate) credential: Credential,
    /// Only queue or topic that the connection string is for.
    pub(crate) entity: Option<String>,
    /// Envelope of published messages, if the connection string names one.
    pub(crate) wrapping: Option<Wrapping>,
}

/// Parts of a connection string.
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
    /// Parses a connection string.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let parts = Parts::parse(text)?;
        let endpoint = parts.endpoint.ok_or_else(|| missing("Endpoint"))?;
        let is_encrypted = !parts.is_emulator;
        let port = if is_encrypted { PORT_TLS } else { PORT_PLAIN };
        let form = AddressForm {
            subject: "the Endpoint of the connection string",
            advice: FORM,
            schemes: &[AddressScheme { name: "sb", port, is_encrypted }],
            scheme_default: None,
            has_several: false,
        };
        let endpoint = form.parse(&endpoint)?;
        if endpoint.user.is_some() {
            return Err(form.error("it names a user, which is SharedAccessKeyName"));
        }
        let HostAndPort { host, port } = endpoint.server;
        let credential = match (parts.policy, parts.key, parts.signature) {
            (_, _, Some(signature)) => Credential::Signature(signature),
            (Some(policy), Some(key), None) => Credential::Key { policy, key },
            (None, ..) => return Err(missing("SharedAccessKeyName")),
            (_, None, _) => return Err(missing("SharedAccessKey")),
        };
        let wrapping = Wrapping::parse(parts.envelope.as_deref(), parts.source.as_deref())?;
        Ok(Self { host, port, is_encrypted, credential, entity: parts.entity, wrapping })
    }

    /// Returns host and port for messages.
    pub(crate) fn endpoint(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Address").field(&self.endpoint()).finish()
    }
}

impl Parts {
    fn parse(text: &str) -> Result<Self> {
        let mut parts = Self::default();
        for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
            // Keys may contain equals signs: base64 pads with them.
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
                        "the connection string has an unknown part; {FORM}"
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_string_is_parsed_and_its_key_is_not_shown() {
        let address = Address::parse(
            "Endpoint=sb://shop.servicebus.windows.net/;SharedAccessKeyName=root;SharedAccessKey=c2VjcmV0PQ==;EntityPath=orders",
        )
        .unwrap();
        assert_eq!(address.endpoint(), "shop.servicebus.windows.net:5671");
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
        assert_eq!((address.endpoint().as_str(), address.is_encrypted), ("localhost:5672", false));
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
