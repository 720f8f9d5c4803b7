//! Server checks: the version. Versions that lose confirmed messages are refused when connecting.

use punctual::{Error, Result};

/// First supported version, major and minor. 2.9 stops its consumers one by one while it shuts down, still confirms
/// what is published, and removes what only the remaining ones have settled.
const VERSION_MIN: (u32, u32) = (2, 10);

/// Refuses a broker whose version is too old or cannot be parsed.
pub(crate) fn check(version: &str, servers: &str) -> Result<()> {
    if parse(version).is_some_and(|version| version >= VERSION_MIN) {
        return Ok(());
    }
    Err(Error::unsupported(format!(
        "NATS at {servers} reports version {version:?}; before 2.10 it loses confirmed messages when it \
         stops: use nats-server 2.10 or newer"
    )))
}

/// Parses major and minor of `2.10.25` or `2.12.0-preview.1`.
fn parse(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use punctual::ErrorKind;

    use super::*;

    #[test]
    fn supported_versions_are_accepted() {
        for version in ["2.10.0", "2.10.25", "2.15.1", "2.12.0-preview.1", "3.0.0"] {
            assert!(check(version, "10.0.0.1:4222").is_ok(), "{version}");
        }
    }

    #[test]
    fn other_versions_are_refused_with_the_reason_and_the_way_out() {
        for version in ["2.9.10", "2.2.0", "1.4.1", "2", "", "new"] {
            let error = check(version, "10.0.0.1:4222").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            let text = error.to_string();
            assert!(text.contains(&format!("10.0.0.1:4222 reports version {version:?}")), "{text}");
            assert!(
                text.contains("before 2.10 it loses confirmed messages when it stops"),
                "{text}"
            );
            assert!(text.ends_with("use nats-server 2.10 or newer"), "{text}");
        }
    }
}
