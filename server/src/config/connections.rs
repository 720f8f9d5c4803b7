//! The section `[server.connections]`: limits of connections and requests, and timeouts of clients.

use serde::{Deserialize, Serialize};

use super::{ConfigDuration, Networks};

/// Limits of connections and requests, and timeouts of clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConnectionsConfig {
    /// Largest number of connections in all; less if the system allows fewer open files.
    pub limit: usize,
    /// Largest number of connections of one address; for IPv6, of one /64 network.
    pub limit_per_address: usize,
    /// Addresses and networks without a limit per address, such as reverse proxies.
    pub exempt: Networks,
    /// Largest number of concurrent requests of one caller: of a user with all their tokens, or of an address before
    /// authentication.
    pub requests_per_caller: usize,
    /// Timeout of the header of a request, including the first one after connecting.
    pub header_timeout: ConfigDuration,
    /// How long an idle connection is kept open.
    pub idle_timeout: ConfigDuration,
    /// How long a client may read no bytes of a response.
    pub write_timeout: ConfigDuration,
}

impl Default for ConnectionsConfig {
    fn default() -> Self {
        Self {
            limit: 10_000,
            limit_per_address: 256,
            exempt: Networks::loopback(),
            requests_per_caller: 256,
            header_timeout: ConfigDuration::seconds(10),
            idle_timeout: ConfigDuration::seconds(75),
            write_timeout: ConfigDuration::seconds(30),
        }
    }
}

impl ConnectionsConfig {
    /// Returns the key of a limit of 0.
    pub(super) fn problem(&self) -> Option<&'static str> {
        let limits = [
            ("limit", self.limit),
            ("limit_per_address", self.limit_per_address),
            ("requests_per_caller", self.requests_per_caller),
        ];
        limits.into_iter().find(|(_, limit)| *limit == 0).map(|(key, _)| key)
    }
}
