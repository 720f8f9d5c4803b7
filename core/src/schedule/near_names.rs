//! Suggestions for a zone name that does not exist.

use std::cmp::Reverse;

use jiff::tz;

/// Up to three names that end in the given word or differ in few letters.
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

/// How many letters must be added, dropped or replaced.
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
