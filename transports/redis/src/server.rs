//! What the server is: whether it can be used at all, whether it keeps what it has accepted, and whether it
//! throws away what it has no room for.

use punctual::{Error, Result};
use redis::{RedisResult, cmd};

use crate::link::Link;

/// The first version with everything that is used here.
const VERSION_MIN: (u32, u32) = (6, 2);

/// Refuses a server that is too old or part of a cluster. One that does not tell is believed.
pub(crate) async fn check(link: &Link) -> Result<()> {
    let told: RedisResult<String> = link.query(cmd("INFO").arg("server")).await;
    let Ok(told) = told else { return Ok(()) };
    let fact = |name: &str| {
        let mut lines = told.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(known, _)| *known == name).map(|(_, value)| value.trim().to_owned())
    };
    if fact("redis_mode").as_deref() == Some("cluster") {
        return Err(Error::unsupported(format!(
            "Redis at {} is part of a cluster, which this transport does not use; give it a server of its own",
            link.place()
        )));
    }
    let version = fact("redis_version").unwrap_or_default();
    if version_of(&version).is_some_and(|version| version < VERSION_MIN) {
        let (major, minor) = VERSION_MIN;
        return Err(Error::unsupported(format!(
            "Redis at {} is version {version}; streams as used here need {major}.{minor} or newer",
            link.place()
        )));
    }
    Ok(())
}

fn version_of(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Whether it has an append-only file; no answer means no.
pub(crate) async fn is_durable(link: &Link) -> bool {
    setting(link, "appendonly").await.as_deref() == Some("yes")
}

/// A setting of the server, when it tells.
async fn setting(link: &Link, name: &str) -> Option<String> {
    let told: RedisResult<Vec<String>> = link.query(cmd("CONFIG").arg("GET").arg(name)).await;
    told.ok()?.into_iter().nth(1)
}

/// Says aloud that a full server loses messages.
pub(crate) async fn warn_of_eviction(link: &Link) {
    let policy = setting(link, "maxmemory-policy").await.unwrap_or_default();
    if policy.starts_with("allkeys") {
        tracing::warn!(
            place = link.place(),
            policy,
            "the server throws streams away when its memory is full; set maxmemory-policy noeviction"
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
