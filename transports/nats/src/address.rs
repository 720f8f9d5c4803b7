//! Addresses of one or several servers of a cluster, checked before connecting. No error text and no `Debug` output
//! contains the password.

use async_nats::ServerAddr;
use punctual::{Error, Result};

/// Example shown in the error for an invalid address.
const EXAMPLE: &str = "use nats://user:password@host:4222";

/// Parsed addresses.
pub(crate) struct Address {
    pub(crate) servers: Vec<ServerAddr>,
}

impl Address {
    /// Parses `nats://user:password@host:4222`; the scheme `tls://` stands for encryption, and commas separate
    /// several servers.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let servers = parts.map(server).collect::<Result<Vec<ServerAddr>>>()?;
        if servers.is_empty() {
            return Err(Error::invalid(format!("the address of NATS is empty; {EXAMPLE}")));
        }
        Ok(Self { servers })
    }

    /// Returns hosts and ports, for texts.
    pub(crate) fn server_names(&self) -> String {
        let names =
            self.servers.iter().map(|server| format!("{}:{}", server.host(), server.port()));
        names.collect::<Vec<String>>().join(", ")
    }
}

fn server(text: &str) -> Result<ServerAddr> {
    // The client's own error may quote the address, so it is not passed on.
    let server: ServerAddr = text.parse().map_err(|_| {
        let shown = text.rsplit_once('@').map_or(text, |(_, rest)| rest);
        Error::invalid(format!("the address of NATS cannot be parsed at {shown:?}; {EXAMPLE}"))
    })?;
    if server.host().is_empty() {
        return Err(Error::invalid(format!("the address of NATS names no host; {EXAMPLE}")));
    }
    if server.is_websocket() {
        return Err(Error::unsupported(
            "the address of NATS is a WebSocket, which is not supported; use nats:// or tls://",
        ));
    }
    Ok(server)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_servers_are_shown_without_their_passwords() {
        let address = Address::parse("nats://ada:secret@one:4222, two, tls://three:99").unwrap();
        assert_eq!(address.server_names(), "one:4222, two:4222, three:99");
        assert!(address.servers[2].tls_required());
    }

    #[test]
    fn an_invalid_address_is_refused_without_its_password() {
        for text in [
            "",
            " , ",
            "http://ada:secret@h:1",
            "nats://ada:secret@h:port",
            "nats://ada:secret@",
            "ws://ada:secret@h:80",
        ] {
            let error = Address::parse(text).err().unwrap().to_string();
            assert!(!error.contains("secret") && error.contains("NATS"), "{text}: {error}");
        }
    }
}
