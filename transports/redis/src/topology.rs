//! Topology of a subscription: a consumer group on the topic's stream and one on the group's own. Both begin at
//! the start of the stream, so that a group receives what was published before it existed and is still retained.

use std::collections::BTreeSet;

use punctual::model::Topic;
use punctual::{Error, Result};
use redis::{RedisResult, Value, cmd};

use crate::connection::BrokerConnection;
use crate::error;
use crate::names::{self, StreamKind, Streams};

/// Creates missing streams and groups.
pub(crate) async fn declare(
    connection: &BrokerConnection,
    streams: &Streams,
    group: &str,
) -> Result<()> {
    for kind in StreamKind::ALL {
        let key = streams.key(kind);
        let mut create = cmd("XGROUP");
        create.arg("CREATE").arg(key).arg(group).arg("0").arg("MKSTREAM");
        match connection.query::<()>(&create).await {
            Err(error) if error::is_group_there(&error) => {}
            Err(error) => return Err(refused(connection, key, &error).await),
            Ok(()) => {}
        }
    }
    Ok(())
}

/// Fails when a stream or group is missing; the error names the command that creates it.
pub(crate) async fn check(
    connection: &BrokerConnection,
    streams: &Streams,
    group: &str,
) -> Result<()> {
    for kind in StreamKind::ALL {
        let key = streams.key(kind);
        let mut pending = cmd("XPENDING");
        pending.arg(key).arg(group);
        match connection.query::<Value>(&pending).await {
            Ok(_) => {}
            Err(error) if error::is_without_group(&error) => {
                return Err(Error::not_found(format!(
                    "Redis at {} has no group {group:?} on the stream {key:?}; let it be declared, or run: XGROUP CREATE \"{key}\" \"{group}\" 0 MKSTREAM",
                    connection.endpoint()
                )));
            }
            Err(error) => return Err(refused(connection, key, &error).await),
        }
    }
    Ok(())
}

/// Returns the error for an unusable stream; for a key of another type it names the type.
async fn refused(connection: &BrokerConnection, key: &str, error: &redis::RedisError) -> Error {
    let mapped = connection.map_error(error);
    if mapped.kind() != punctual::ErrorKind::Conflict {
        return mapped.with("stream", key);
    }
    let kind: RedisResult<String> = connection.query(cmd("TYPE").arg(key)).await;
    let kind = kind.unwrap_or_else(|_| "something else".to_owned());
    Error::conflict(format!(
        "the key {key:?} of Redis at {} must be a stream and is a {kind}; remove it or choose another prefix",
        connection.endpoint()
    ))
}

/// Keys that the server scans in one step, and the most steps.
const SCAN_STEP: usize = 1_000;
const SCANS_MAX: usize = 10_000;

/// Returns the topics that have a stream, sorted.
pub(crate) async fn topics(connection: &BrokerConnection, prefix: &str) -> Result<Vec<Topic>> {
    let pattern = format!("{}:*", escaped(prefix));
    let mut found = BTreeSet::new();
    let mut cursor = 0_u64;
    for _ in 0..SCANS_MAX {
        let mut scan = cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(SCAN_STEP);
        scan.arg("TYPE").arg("stream");
        let reply: RedisResult<(u64, Vec<String>)> = connection.query(&scan).await;
        let (next, keys) = reply.map_err(|error| connection.map_error(&error).during("topics"))?;
        found.extend(keys.iter().filter_map(|key| names::topic_of(prefix, key)));
        if next == 0 {
            return Ok(found.into_iter().collect());
        }
        cursor = next;
    }
    Err(Error::unsupported(format!(
        "Redis at {} has too many keys to list topics among them; name the topic instead",
        connection.endpoint()
    )))
}

/// Escapes a prefix, so that as a pattern it matches itself only.
fn escaped(prefix: &str) -> String {
    let mut pattern = String::with_capacity(prefix.len());
    for letter in prefix.chars() {
        if matches!(letter, '*' | '?' | '[' | ']' | '\\' | '^') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern
}
