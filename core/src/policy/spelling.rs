//! Spelling: names of policies are read in any usual spelling and printed in one. Only names; what
//! they mean is in the files of the policies.

/// The name without what spellings differ in: `FireNow`, `fire-now` and `fire_now` are one.
pub(super) fn plain(text: &str) -> String {
    let kept = text.chars().filter(|c| !matches!(c, '-' | '_' | ' '));
    kept.flat_map(char::to_lowercase).take(LEN_MAX).collect()
}

/// More than any name has; what is longer is no name.
const LEN_MAX: usize = 64;
