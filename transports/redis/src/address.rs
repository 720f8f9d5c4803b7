//! Address of the server: `redis://user:password@host:6379/0`, or `rediss://` for TLS. The password is never
//! shown.

use std::fmt;

use punctual::{Error, Result};
use redis::{Client, ConnectionAddr, IntoConnectionInfo as _, TlsCertificates};
use rustls::crypto::{CryptoProvider, ring};

const FORM: &str = "expected redis://user:password@host:6379/0, or rediss:// for TLS";

/// Parsed address.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) client: Client,
    /// Host, port and database, for messages.
    pub(crate) endpoint: String,
}

impl Address {
    /// Parses an address. With TLS the server's certificate is verified against the given root certificate, or
    /// against the roots that browsers trust.
    pub(crate) fn parse(text: &str, root_certificate: Option<&[u8]>) -> Result<Self> {
        let text = text.trim();
        let info = text.into_connection_info().map_err(|error| {
            // The driver's message may quote the address, password included.
            let why = if error.to_string().contains(text) { "" } else { error.category() };
            Error::invalid(format!("the address of Redis is invalid {why}; {FORM}"))
        })?;
        let endpoint = endpoint(info.addr(), info.redis_settings().db());
        let refused = |error: redis::RedisError| {
            Error::invalid(format!(
                "Redis at {endpoint} cannot be used with this root certificate: {error}"
            ))
        };
        let is_encrypted = matches!(info.addr(), ConnectionAddr::TcpTls { .. });
        if is_encrypted && CryptoProvider::get_default().is_none() {
            // The driver uses the process's crypto provider and accepts no other. If one was installed
            // meanwhile, it serves as well.
            let _ = ring::default_provider().install_default();
        }
        let client = match root_certificate {
            Some(root) if is_encrypted => {
                let root_cert = Some(root.to_vec());
                let certificates = TlsCertificates { client_tls: None, root_cert };
                Client::build_with_tls(info, certificates).map_err(refused)?
            }
            Some(_) => {
                return Err(Error::invalid(format!(
                    "Redis at {endpoint} has a root certificate but no TLS; begin its address with rediss://"
                )));
            }
            None => Client::open(info).map_err(refused)?,
        };
        Ok(Self { client, endpoint })
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Address").field(&self.endpoint).finish()
    }
}

/// Returns host, port and database for messages.
fn endpoint(address: &ConnectionAddr, database: i64) -> String {
    match address {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            format!("{host}:{port}/{database}")
        }
        other => format!("{other}/{database}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoint_is_shown_and_the_password_is_not() {
        let address = Address::parse("redis://ada:secret@db.example:6380/2", None).unwrap();
        assert_eq!(address.endpoint, "db.example:6380/2");
        assert!(!format!("{address:?}").contains("secret"));
        let address = Address::parse("rediss://:secret@db.example", None).unwrap();
        assert_eq!(address.endpoint, "db.example:6379/0");
    }

    #[test]
    fn a_wrong_address_is_refused_without_its_password() {
        for text in
            ["http://u:secret@h", "secret", "", "redis://u:secret@h:port", "redis://u:secret@h/db"]
        {
            let error = Address::parse(text, None).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
            assert!(error.contains("redis://user"), "{error}");
        }
        let error = Address::parse("redis://h", Some(b"pem")).unwrap_err().to_string();
        assert!(error.contains("rediss://"), "{error}");
    }
}
