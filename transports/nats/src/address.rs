//! Where the broker is: one address or several of one cluster, checked before anything is tried. Nothing
//! here is ever shown with its password.

use async_nats::ServerAddr;
use punctual::{Error, Result};

/// How a right one looks, for whoever wrote a wrong one.
const EXAMPLE: &str = "it looks like nats://user:password@host:4222";

/// Addresses that were understood.
pub(crate) struct Address {
    pub(crate) servers: Vec<ServerAddr>,
}

impl Address {
    /// Understands `nats://user:password@host:4222`, with `tls://` for encryption and commas between
    /// several.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let servers = parts.map(server).collect::<Result<Vec<ServerAddr>>>()?;
        if servers.is_empty() {
            return Err(Error::invalid(format!("the address of NATS is empty; {EXAMPLE}")));
        }
        Ok(Self { servers })
    }

    /// Hosts and ports, for people.
    pub(crate) fn place(&self) -> String {
        let places = self.servers.iter().map(|one| format!("{}:{}", one.host(), one.port()));
        places.collect::<Vec<String>>().join(", ")
    }
}

fn server(text: &str) -> Result<ServerAddr> {
    // The client's own error may quote the address, so it is not passed on.
    let server: ServerAddr = text.parse().map_err(|_| {
        let shown = text.rsplit_once('@').map_or(text, |(_, rest)| rest);
        Error::invalid(format!("the address of NATS cannot be read at {shown:?}; {EXAMPLE}"))
    })?;
    if server.host().is_empty() {
        return Err(Error::invalid(format!("the address of NATS names no host; {EXAMPLE}")));
    }
    if server.is_websocket() {
        return Err(Error::unsupported(
            "the address of NATS asks for a web socket, which is not built in; use nats:// or tls://",
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
        assert_eq!(address.place(), "one:4222, two:4222, three:99");
        assert!(address.servers[2].tls_required());
    }

    #[test]
    fn a_wrong_address_is_refused_without_its_password() {
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
