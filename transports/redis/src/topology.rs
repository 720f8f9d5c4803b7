//! What a subscription needs on the server: a consumer group on the topic's stream and one on the group's
//! own. Both begin at the beginning, so that what was published before the group was there and is still
//! kept is seen.

use std::collections::BTreeSet;

use punctual::model::Topic;
use punctual::{Error, Result};
use redis::{RedisResult, Value, cmd};

use crate::fault;
use crate::link::Link;
use crate::streams::{self, Lane, Streams};

/// Makes the streams and groups that are not there.
pub(crate) async fn declare(link: &Link, streams: &Streams, group: &str) -> Result<()> {
    for lane in Lane::ALL {
        let key = streams.key(lane);
        let mut create = cmd("XGROUP");
        create.arg("CREATE").arg(key).arg(group).arg("0").arg("MKSTREAM");
        match link.query::<()>(&create).await {
            Err(error) if fault::is_group_there(&error) => {}
            Err(error) => return Err(refused(link, key, &error).await),
            Ok(()) => {}
        }
    }
    Ok(())
}

/// Refuses when something is missing, with what would make it.
pub(crate) async fn check(link: &Link, streams: &Streams, group: &str) -> Result<()> {
    for lane in Lane::ALL {
        let key = streams.key(lane);
        let mut ask = cmd("XPENDING");
        ask.arg(key).arg(group);
        match link.query::<Value>(&ask).await {
            Ok(_) => {}
            Err(error) if fault::is_without_group(&error) => {
                return Err(Error::not_found(format!(
                    "Redis at {} has no group {group:?} on the stream {key:?}; allow it to be declared, or run: XGROUP CREATE \"{key}\" \"{group}\" 0 MKSTREAM",
                    link.place()
                )));
            }
            Err(error) => return Err(refused(link, key, &error).await),
        }
    }
    Ok(())
}

/// The error for a stream that cannot be used, with what lies there when it is something else.
async fn refused(link: &Link, key: &str, error: &redis::RedisError) -> Error {
    let told = link.told(error);
    if told.kind() != punctual::ErrorKind::Conflict {
        return told.with("stream", key);
    }
    let kind: RedisResult<String> = link.query(cmd("TYPE").arg(key)).await;
    let kind = kind.unwrap_or_else(|_| "something else".to_owned());
    Error::conflict(format!(
        "the key {key:?} of Redis at {} should be a stream and is a {kind}; remove it or choose another prefix",
        link.place()
    ))
}

/// How many keys the server looks at in one step, and how many steps are made.
const SCAN_STEP: usize = 1_000;
const SCANS_MAX: usize = 10_000;

/// The topics that have a stream, in order.
pub(crate) async fn topics(link: &Link, prefix: &str) -> Result<Vec<Topic>> {
    let pattern = format!("{}:*", escaped(prefix));
    let mut found = BTreeSet::new();
    let mut cursor = 0_u64;
    for _ in 0..SCANS_MAX {
        let mut scan = cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(SCAN_STEP);
        scan.arg("TYPE").arg("stream");
        let answer: RedisResult<(u64, Vec<String>)> = link.query(&scan).await;
        let (next, keys) = answer.map_err(|error| link.told(&error).during("topics"))?;
        found.extend(keys.iter().filter_map(|key| streams::topic_of(prefix, key)));
        if next == 0 {
            return Ok(found.into_iter().collect());
        }
        cursor = next;
    }
    Err(Error::unsupported(format!(
        "Redis at {} holds too many keys to look for topics among them; name the one you mean",
        link.place()
    )))
}

/// A prefix that matches itself only.
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
