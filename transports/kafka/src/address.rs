//! Addresses of a cluster: `host:port`, several separated by commas, or the same after `kafka://` with a user and a
//! password. No error text and no `Debug` output contains the password.

use punctual::Result;
use punctual::backend::transport::address::{AddressForm, AddressScheme};

const PLAIN: AddressScheme<'_> = AddressScheme { name: "kafka", port: 9092, is_encrypted: false };
const FORM: AddressForm<'_> = AddressForm {
    subject: "the address of Kafka",
    advice: "use kafka://user:password@host:9092,host:9092 or host:9092",
    schemes: &[PLAIN, AddressScheme { name: "kafkas", port: 9092, is_encrypted: true }],
    scheme_default: Some(PLAIN),
    has_several: true,
};

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
        let mut address = FORM.parse(text)?;
        let login = match (address.user.take(), address.password.take()) {
            (None, None) => None,
            (Some(user), Some(password)) if !user.is_empty() => Some(Login { user, password }),
            _ => return Err(FORM.error("it has no user or no password before the @")),
        };
        Ok(Self { servers: address.to_string(), login, tls: address.is_encrypted })
    }
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
