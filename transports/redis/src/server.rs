//! Server checks: version and mode, durability, and eviction of streams when the memory is full.

use punctual::{Error, Result};
use redis::{RedisResult, cmd};

use crate::connection::BrokerConnection;

/// Oldest version with every command used here.
const VERSION_MIN: (u32, u32) = (6, 2);

/// Refuses a server that is too old or part of a cluster. A server that does not allow `INFO` is accepted.
pub(crate) async fn check(connection: &BrokerConnection) -> Result<()> {
    let reply: RedisResult<String> = connection.query(cmd("INFO").arg("server")).await;
    let Ok(reply) = reply else { return Ok(()) };
    let field = |name: &str| {
        let mut lines = reply.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(known, _)| *known == name).map(|(_, value)| value.trim().to_owned())
    };
    if field("redis_mode").as_deref() == Some("cluster") {
        return Err(Error::unsupported(format!(
            "Redis at {} is part of a cluster, which this transport does not support; use a single server",
            connection.endpoint()
        )));
    }
    let version = field("redis_version").unwrap_or_default();
    if version_of(&version).is_some_and(|version| version < VERSION_MIN) {
        let (major, minor) = VERSION_MIN;
        return Err(Error::unsupported(format!(
            "Redis at {} is version {version}; this transport needs {major}.{minor} or newer",
            connection.endpoint()
        )));
    }
    Ok(())
}

fn version_of(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Returns whether the server has an append-only file; false when it does not allow the question.
pub(crate) async fn is_durable(connection: &BrokerConnection) -> bool {
    setting(connection, "appendonly").await.as_deref() == Some("yes")
}

/// Returns a setting of the server, if it allows reading it.
async fn setting(connection: &BrokerConnection, name: &str) -> Option<String> {
    let reply: RedisResult<Vec<String>> =
        connection.query(cmd("CONFIG").arg("GET").arg(name)).await;
    reply.ok()?.into_iter().nth(1)
}

/// Logs a warning when the server evicts streams to free memory.
pub(crate) async fn warn_of_eviction(connection: &BrokerConnection) {
    let policy = setting(connection, "maxmemory-policy").await.unwrap_or_default();
    if policy.starts_with("allkeys") {
        tracing::warn!(
            endpoint = connection.endpoint(),
            policy,
            "the server evicts streams when its memory is full; set maxmemory-policy noeviction"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        assert!(version_of("6.0.16").unwrap() < VERSION_MIN);
        assert!(version_of("7.0.15").unwrap() >= VERSION_MIN);
        assert!(version_of("10.1.0").unwrap() >= VERSION_MIN);
        assert_eq!(version_of("unknown"), None);
    }
}
