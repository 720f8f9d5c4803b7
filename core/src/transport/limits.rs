//! Limits of a transport: refuses a delay that it cannot keep.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::model::{Delay, MessageId};

/// Fails when a product does not delay a message that long.
pub fn check_delay(
    product: &str,
    supported: Delay,
    message: MessageId,
    delay: Duration,
) -> Result<()> {
    let limit = match supported {
        _ if supported.supports(delay) => return Ok(()),
        Delay::UpTo(limit) => format!(", only by {limit:?}"),
        Delay::None | Delay::Any => String::new(),
    };
    Err(Error::unsupported(format!(
        "{product} cannot delay a message by {delay:?}{limit}; give the builder a storage, which keeps delayed messages"
    ))
    .with("message", message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{IdSource as _, Ids};

    #[test]
    fn a_delay_beyond_the_limit_is_refused_with_both() {
        let id = Ids::random().next(jiff::Timestamp::UNIX_EPOCH);
        let message = MessageId::from_uuid(id);
        let check = |supported, seconds| {
            check_delay("MQ", supported, message, Duration::from_secs(seconds))
        };
        check(Delay::None, 0).unwrap();
        check(Delay::UpTo(Duration::from_secs(5)), 5).unwrap();
        check(Delay::Any, 9).unwrap();
        let error = check(Delay::UpTo(Duration::from_secs(5)), 6).unwrap_err().to_string();
        assert!(error.contains("by 6s, only by 5s; give"), "{error}");
        assert_eq!(check(Delay::None, 1).unwrap_err().kind(), crate::ErrorKind::Unsupported);
    }
}
