//! The section `[server.connections]`: how many connections and requests there may be, and how long clients may take.

use serde::{Deserialize, Serialize};

use super::{Length, Networks};

/// How many connections and requests there may be, and how long clients may take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConnectionsConfig {
    /// The most connections in all; fewer where the system allows fewer open files.
    pub limit: usize,
    /// The most connections of one address; of IPv6, of one network of 64 bits.
    pub limit_per_address: usize,
    /// Addresses and networks without a limit of their own: reverse proxies, behind which everybody has one address.
    pub exempt: Networks,
    /// The most requests of one caller that are under way at once: of a user with all their tokens, or of an address
    /// where it is not known who calls.
    pub requests_per_caller: usize,
    /// How long the header of a request may take, also the first one after the connection was made.
    pub header_timeout: Length,
    /// How long a connection is kept for a further request.
    pub idle_timeout: Length,
    /// How long a client may take no bytes of an answer.
    pub write_timeout: Length,
}

impl Default for ConnectionsConfig {
    fn default() -> Self {
        Self {
            limit: 10_000,
            limit_per_address: 256,
            exempt: Networks::loopback(),
            requests_per_caller: 256,
            header_timeout: Length::seconds(10),
            idle_timeout: Length::seconds(75),
            write_timeout: Length::seconds(30),
        }
    }
}

impl ConnectionsConfig {
    /// Returns the key of a limit that lets nobody in.
    pub(super) fn problem(&self) -> Option<&'static str> {
        let limits = [
            ("limit", self.limit),
            ("limit_per_address", self.limit_per_address),
            ("requests_per_caller", self.requests_per_caller),
        ];
        limits.into_iter().find(|(_, limit)| *limit == 0).map(|(key, _)| key)
    }
}
