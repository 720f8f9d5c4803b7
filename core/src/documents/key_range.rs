//! Key range: selects the documents of a kind that are listed, also as a half-open span of keys, so that all
//! storages compare keys in the same way and none needs patterns.

use std::ops::Range;

use super::{DOCUMENTS_MAX, KEY_LEN_MAX, check_text};
use crate::error::Result;

/// The documents of a kind whose key begins with a prefix and comes after a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// Only keys that begin with this, character by character; it has no wildcards.
    pub prefix: Option<String>,
    /// Only keys after this one in the order of the list; it need not exist.
    pub after: Option<String>,
    /// Whether keys are listed in descending order.
    pub descending: bool,
    /// The most documents; capped at [`DOCUMENTS_MAX`].
    pub limit: usize,
}

impl Default for KeyRange {
    /// Creates the range of all keys, with the largest limit.
    fn default() -> Self {
        Self { prefix: None, after: None, descending: false, limit: DOCUMENTS_MAX }
    }
}

impl KeyRange {
    /// Creates the range of the keys that begin with a prefix.
    pub fn prefix(text: impl Into<String>) -> Self {
        Self { prefix: Some(text.into()), ..Self::default() }
    }

    /// Returns the limit, at most [`DOCUMENTS_MAX`].
    pub fn bounded(&self) -> usize {
        self.limit.clamp(1, DOCUMENTS_MAX)
    }

    /// Returns the span of keys: from the start, which is included, to the end, which is not; empty when
    /// no key is in it. A text that no key can have is refused.
    pub fn span(&self) -> Result<Range<String>> {
        let prefix = self.prefix.as_deref().unwrap_or_default();
        check_text("prefix", prefix)?;
        let (mut start, mut end) = (prefix.to_owned(), first_after(prefix));
        if let Some(after) = &self.after {
            check_text("after", after)?;
            if self.descending {
                end = end.min(after.clone());
            } else {
                // Keys have no control characters, so nothing lies between the key and this.
                start = start.max(format!("{after}\u{1}"));
            }
        }
        Ok(start..end)
    }
}

/// Returns the first key after all keys that begin with a prefix.
fn first_after(prefix: &str) -> String {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        // A range of characters steps over the surrogates.
        if let Some(next) = (last..=char::MAX).nth(1) {
            text.push(next);
            return text;
        }
    }
    String::from(char::MAX).repeat(KEY_LEN_MAX + 1)
}
