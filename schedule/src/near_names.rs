//! Suggestions for a name that does not exist: of a zone, or of anything with a list of names.

use std::cmp::Reverse;

use jiff::tz;

/// Returns up to three names that end in the given word or differ in few letters.
pub(super) fn near_names(name: &str) -> Vec<String> {
    let wanted = name.trim().to_ascii_lowercase().replace(' ', "_");
    let mut near: Vec<(usize, Reverse<bool>, String)> = tz::db()
        .available()
        .filter_map(|known| {
            let known = known.as_str();
            let lower = known.to_ascii_lowercase();
            let city = lower.rsplit('/').next().unwrap_or(&lower);
            let distance = distance(&wanted, &lower).min(distance(&wanted, city));
            (distance <= 2 && distance < wanted.len().max(1))
                .then(|| (distance, Reverse(known.contains('/')), known.to_owned()))
        })
        .collect();
    near.sort();
    near.into_iter().map(|(_, _, known)| known).take(3).collect()
}

/// Returns up to three of the known words that differ from the given one in at most two letters,
/// nearest first, for error messages with "did you mean".
///
/// ```
/// use punctual_schedule::near_words;
///
/// assert_eq!(near_words("timout", ["timeout", "topic"]), ["timeout"]);
/// ```
pub fn near_words<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted: String = wanted.chars().take(WORD_LEN_MAX).collect::<String>().to_lowercase();
    let near = known.into_iter().filter_map(|word| {
        let distance = distance(&wanted, &word.to_lowercase());
        (distance <= 2 && distance < wanted.chars().count()).then_some((distance, word))
    });
    let mut near: Vec<(usize, &str)> = near.collect();
    near.sort_unstable();
    near.into_iter().map(|(_, word)| word).take(3).collect()
}

/// Longest word that is compared; no known word is as long.
const WORD_LEN_MAX: usize = 100;

/// Returns the number of letters to add, drop or replace (Levenshtein distance).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = if from == *to { diagonal } else { diagonal + 1 };
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
