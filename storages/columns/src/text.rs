//! Text columns.

use std::borrow::Cow;

/// Replaces NUL characters in free text: errors and notes come from any source, and SQL text cannot contain NUL.
pub fn without_nul(text: &str) -> Cow<'_, str> {
    if text.contains('\0') {
        Cow::Owned(text.replace('\0', "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nul_is_replaced() {
        assert_eq!(without_nul("a\nb"), "a\nb");
        assert_eq!(without_nul("a\0b"), "a\u{fffd}b");
    }
}
