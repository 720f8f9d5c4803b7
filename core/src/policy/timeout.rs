//! Timeout: decides from the limits of a message and of its process how long an attempt may take. Measuring and
//! cancelling belong to the attempt.

use std::time::Duration;

/// Returns the limit in force: the message's own, else the default, else none.
///
/// A limit of zero counts as not set, as in declarations.
pub(crate) fn timeout(own: Option<Duration>, default: Option<Duration>) -> Option<Duration> {
    let given = |limit: &Duration| !limit.is_zero();
    own.filter(given).or(default.filter(given))
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: H-21, H-24, H-25, H-29, H-78, U-55
    #[test]
    fn own_limit_then_default_then_none() {
        let (short, long) = (Duration::from_secs(10), Duration::from_mins(1));
        for (own, default, expected) in [
            (Some(short), Some(long), Some(short)),
            (Some(long), Some(short), Some(long)),
            (Some(short), None, Some(short)),
            (None, Some(long), Some(long)),
            (Some(Duration::ZERO), Some(long), Some(long)),
            (Some(Duration::ZERO), None, None),
            (None, Some(Duration::ZERO), None),
            (None, None, None),
        ] {
            assert_eq!(timeout(own, default), expected, "{own:?} {default:?}");
        }
    }
}
