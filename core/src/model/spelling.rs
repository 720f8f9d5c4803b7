//! Spelling: names of policies are read in any usual spelling and printed in one. Only the names; their meaning
//! is in the files of the policies.

/// Returns a name in lower case without separators: `FireNow`, `fire-now` and `fire_now` are equal.
pub(crate) fn normalized(text: &str) -> String {
    let letters = text.chars().filter(|c| !matches!(c, '-' | '_' | ' '));
    letters.flat_map(char::to_lowercase).take(LEN_MAX).collect()
}

/// Number of characters that are compared; every name is shorter.
const LEN_MAX: usize = 64;
