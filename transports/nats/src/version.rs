//! The version of the broker. One that is too old loses what it has confirmed, so it is refused here and
//! not found out about later.

use punctual::{Error, Result};

/// The first version that is taken, major and minor. 2.9 lets go of its consumers one by one while it
/// stops, still confirms what is published, and removes what only the remaining ones have settled.
const VERSION_MIN: (u32, u32) = (2, 10);

/// Refuses a broker that says it has this version, if it is too old or cannot be read.
pub(crate) fn check(version: &str, place: &str) -> Result<()> {
    if parsed(version).is_some_and(|version| version >= VERSION_MIN) {
        return Ok(());
    }
    Err(Error::unsupported(format!(
        "NATS at {place} says that its version is {version:?}; before 2.10 it loses confirmed messages when it \
         stops: use nats-server 2.10 or newer"
    )))
}

/// Major and minor of `2.10.25` or `2.12.0-preview.1`.
fn parsed(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use punctual::ErrorKind;

    use super::*;

    #[test]
    fn brokers_that_keep_what_they_confirm_are_taken() {
        for version in ["2.10.0", "2.10.25", "2.15.1", "2.12.0-preview.1", "3.0.0"] {
            assert!(check(version, "10.0.0.1:4222").is_ok(), "{version}");
        }
    }

    #[test]
    fn others_are_refused_with_their_version_the_reason_and_the_way_out() {
        for version in ["2.9.10", "2.2.0", "1.4.1", "2", "", "new"] {
            let error = check(version, "10.0.0.1:4222").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            let said = error.to_string();
            assert!(
                said.contains(&format!("10.0.0.1:4222 says that its version is {version:?}")),
                "{said}"
            );
            assert!(
                said.contains("before 2.10 it loses confirmed messages when it stops"),
                "{said}"
            );
            assert!(said.ends_with("use nats-server 2.10 or newer"), "{said}");
        }
    }
}
