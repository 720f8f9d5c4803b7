//! Words for values: lists, ranges, ordinals, names of days and months.

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

const NTH: [&str; 5] = ["first", "second", "third", "fourth", "fifth"];

pub(super) fn month(number: u8) -> String {
    MONTHS[usize::from(number - 1)].to_owned()
}

pub(super) fn weekday(number: u8) -> String {
    WEEKDAYS[usize::from(number)].to_owned()
}

pub(super) fn nth(number: u8) -> &'static str {
    NTH[usize::from(number - 1)]
}

/// Returns `2nd`, `3rd`, `11th`.
pub(super) fn ordinal(number: u8) -> String {
    let ending = match (number % 10, number / 10) {
        (1, tens) if tens != 1 => "st",
        (2, tens) if tens != 1 => "nd",
        (3, tens) if tens != 1 => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

/// Returns the values of a set in rising order.
pub(super) fn values(bits: u64) -> Vec<u8> {
    (0..64).filter(|value| bits & (1 << value) != 0).collect()
}

/// Returns `9 to 17` or `1, 2 and 5`: three or more in a row become a range.
pub(super) fn list(bits: u64, last: &str, name: impl Fn(u8) -> String) -> String {
    let mut runs: Vec<(u8, u8)> = Vec::new();
    for value in values(bits) {
        match runs.last_mut() {
            Some((_, end)) if *end + 1 == value => *end = value,
            _ => runs.push((value, value)),
        }
    }
    let words = runs.into_iter().flat_map(|(start, end)| match end - start {
        0 => vec![name(start)],
        1 => vec![name(start), name(end)],
        _ => vec![format!("{} to {}", name(start), name(end))],
    });
    join(words.collect(), last)
}

/// Returns `a, b and c`.
pub(super) fn join(mut words: Vec<String>, last: &str) -> String {
    match words.pop() {
        None => String::new(),
        Some(only) if words.is_empty() => only,
        Some(end) => format!("{} {last} {end}", words.join(", ")),
    }
}
