//! Addresses of a broker: `mqtt://user:password@host:1883`, or `mqtts://` for TLS. No error text and no `Debug`
//! output contains the password.

use punctual::Result;
use punctual::backend::transport::address::{AddressForm, AddressScheme, ServerAddress};

use crate::codec::TEXT_MAX;

const fn scheme(name: &str, port: u16, is_encrypted: bool) -> AddressScheme<'_> {
    AddressScheme { name, port, is_encrypted }
}

const FORM: AddressForm<'_> = AddressForm {
    subject: "the address of the broker",
    advice: "use mqtt://user:password@host:1883, or mqtts://host:8883 for TLS",
    schemes: &[
        scheme("mqtt", 1883, false),
        scheme("tcp", 1883, false),
        scheme("mqtts", 8883, true),
        scheme("ssl", 8883, true),
    ],
    scheme_default: None,
    has_several: false,
};

/// Parses an address.
pub(crate) fn parse(text: &str) -> Result<ServerAddress> {
    let address = FORM.parse(text)?;
    let is_refused = |text: &String| text.len() > TEXT_MAX || text.contains('\0');
    if address.user.iter().chain(&address.password).any(is_refused) {
        return Err(
            FORM.error("its user or password is longer than MQTT allows, or contains a zero byte")
        );
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_port_are_shown_and_the_password_is_not() {
        let address = parse("mqtt://ada:s%40cret@broker.example:1884/").unwrap();
        assert_eq!(address.to_string(), "broker.example:1884");
        assert_eq!(address.password.as_deref(), Some("s@cret"));
        assert!(!format!("{address:?}").contains("cret"));
        let address = parse("mqtts://[::1]").unwrap();
        assert!(address.is_encrypted && address.user.is_none());
        assert_eq!(address.to_string(), "[::1]:8883");
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
            let error = parse(text).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
            assert!(error.contains("mqtt://user"), "{error}");
        }
    }
}
