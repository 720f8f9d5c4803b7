//! Fuzzing: text of any kind and length returns a value or an error, quickly, never a panic.

use proptest::prelude::*;

use super::generate::Random;
use crate::{Cron, CronErrorKind, Zone};

const CORPUS: [&str; 24] = [
    "* * * * *",
    "*/5 0-23/2 1,15 JAN-DEC MON-FRI",
    "0 0 0 L-3W * ?",
    "59-0/59 22-2 31W 12-1 7#5",
    "H H(0-7) H/3 * H(MON-FRI)/2",
    "@every_second",
    "@daily",
    "0 0 L * 5L",
    "0 0 LW 2 *",
    "0 0 30 2 *",
    "00 00 01 01 00",
    "\t*\t*\t*\t*\t*\t",
    "*\n* * * *",
    "0 0 * * 7-7/7",
    "1,1,1,1,1,1,1,1 1 1 1 1",
    "0x1 0 1 1 1",
    "+1 0 1 1 1",
    "1e1 0 1 1 1",
    "١ 0 1 1 1",
    "ＭＯＮ 0 1 1 1",
    "0 0 0 1 1 * 2030",
    "\u{0}* * * * *",
    "💥 * * * *",
    "-- // ,, ## LL WW",
];

const PIECES: [&str; 22] = [
    "*", "?", "/", "-", ",", "L", "W", "#", "H", "(", ")", "@", " ", "\t", "\n", "0", "7", "59",
    "99", "MON", "é", "\u{0}",
];

/// Every parsed expression can be searched, shown and parsed again.
fn exercise(text: &str) {
    for parsed in [Cron::parse(text), Cron::parse_seeded(text, "seed")] {
        match parsed {
            Ok(cron) => {
                let berlin = Zone::named("Europe/Berlin").unwrap();
                let start = "2026-03-28T22:00:00Z".parse().unwrap();
                let next = cron.next(start, &berlin);
                assert_eq!(next.is_some(), cron.happens(), "{text:?}");
                let canonical = cron.to_string();
                assert_eq!(Cron::parse(&canonical).unwrap().to_string(), canonical, "{text:?}");
                assert_eq!(Cron::parse(cron.resolved()).unwrap(), cron, "{text:?}");
                assert!(!cron.describe().is_empty());
            }
            Err(error) => {
                assert!(error.position() <= text.chars().count(), "{text:?}: {error}");
                assert!(error.to_string().len() < 400, "{text:?}: {error}");
            }
        }
    }
}

// spec: T-54
#[test]
fn survives_mutations_of_a_corpus() {
    let mut random = Random::new(42);
    for text in CORPUS {
        exercise(text);
    }
    for _ in 0..6_000 {
        let mut text: Vec<char> = random.pick(&CORPUS).chars().collect();
        for _ in 0..=random.below(4) {
            let length = i64::try_from(text.len()).unwrap();
            let place = usize::try_from(random.below(length + 1)).unwrap();
            match random.below(4) {
                0 if place < text.len() => {
                    text.remove(place);
                }
                1 => text.truncate(place),
                2 => {
                    let half: Vec<char> = text[place..].to_vec();
                    text.extend(half);
                }
                _ => {
                    let piece = random.pick(&PIECES);
                    text.splice(place..place, piece.chars());
                }
            }
        }
        exercise(&text.into_iter().collect::<String>());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1_000) })]

    // spec: T-54
    #[test]
    fn survives_arbitrary_text(text in proptest::collection::vec(any::<char>(), 0..80)) {
        exercise(&text.into_iter().collect::<String>());
    }

    #[test]
    fn survives_arbitrary_pieces(pieces in proptest::collection::vec(proptest::sample::select(&PIECES[..]), 0..40)) {
        exercise(&pieces.concat());
    }
}

// spec: T-54
#[test]
fn refuses_endless_text_immediately() {
    for text in
        ["*".repeat(10_000_000), " ".repeat(10_000_000), "1,".repeat(5_000_000), "é".repeat(600)]
    {
        let error = Cron::parse(&text).unwrap_err();
        assert_eq!(error.kind(), CronErrorKind::TooLong);
    }
    // The longest useful text is far below the limit.
    let all = |last: u8| (0..last).map(|v| v.to_string()).collect::<Vec<_>>().join(",");
    let longest = format!(
        "{} {} {} {} {} {}",
        all(59),
        all(59),
        all(23),
        all(31).replacen("0,", "", 1),
        "1,2,3,4,5,6,7,8,9,10,11,12",
        all(8)
    );
    assert!(longest.len() < 600);
    exercise(&longest);
}
