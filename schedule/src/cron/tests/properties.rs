//! Properties of every expression, every zone and every instant.

use jiff::civil::date;
use jiff::{SignedDuration, Timestamp, ToSpan};
use proptest::prelude::*;

use super::generate::{Random, ZONES, random_expression};
use super::oracle::clock_changes;
use crate::cron::field::Fields;
use crate::{Cron, Zone};

/// An expression, a zone and an instant, often near a clock change.
fn any_case() -> impl Strategy<Value = (Cron, Zone, Timestamp)> {
    (any::<u64>(), 0..2_000_000_000_i64, any::<bool>()).prop_map(|(seed, second, near)| {
        let mut random = Random::new(seed);
        let zone = Zone::named(random.pick(&ZONES)).unwrap();
        let mut at = Timestamp::new(second, 250_000_000).unwrap();
        if near {
            let change = random.pick(&clock_changes(&zone, 1970, 2060));
            at = Timestamp::from_second(change + random.below(20_000) - 10_000).unwrap();
        }
        let text = random_expression(&mut random, zone.wall(at));
        (Cron::parse(&text).unwrap(), zone, at)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    // spec: U-19
    #[test]
    fn forward_and_backward_visit_the_same_instants((cron, zone, start) in any_case()) {
        let mut at = start;
        for _ in 0..20 {
            let Some(next) = cron.next(at, &zone) else { break };
            prop_assert!(next > at);
            prop_assert_eq!(next.subsec_nanosecond(), 0);
            prop_assert_eq!(cron.prev(next + SignedDuration::from_nanos(1), &zone), Some(next));
            if at != start {
                prop_assert_eq!(cron.prev(next, &zone), Some(at));
            } else if let Some(prev) = cron.prev(next, &zone) {
                prop_assert!(prev <= start);
                prop_assert_eq!(cron.next(prev, &zone), Some(next));
            }
            at = next;
        }
    }

    // The text lists the times; whether they were listed or stepped is not in it.
    #[test]
    fn canonical_text_reads_back_as_the_same_times((cron, _, _) in any_case()) {
        let canonical = cron.to_string();
        let again = Cron::parse(&canonical).unwrap();
        prop_assert_eq!(&again.to_string(), &canonical);
        let interval_like = cron.fields.interval_like;
        prop_assert_eq!(Fields { interval_like, ..again.fields }, cron.fields);
    }

    #[test]
    fn a_start_anywhere_before_an_occurrence_finds_it((cron, zone, start) in any_case(), part in 0.0..1.0) {
        if let Some(next) = cron.next(start, &zone) {
            let between = start + next.duration_since(start).mul_f64(part);
            prop_assume!(between < next);
            prop_assert_eq!(cron.next(between, &zone), Some(next));
        }
    }
}

// spec: U-19, U-46
#[test]
fn no_start_in_a_year_skips_or_repeats_an_occurrence() {
    for (text, zone) in [
        ("30 2 * * *", "Europe/Berlin"),
        ("*/20 1-3 * * *", "America/New_York"),
        ("15 0,1,2 * * *", "Australia/Lord_Howe"),
        ("0 0 * * SUN", "Asia/Beirut"),
        ("45 23 L * *", "America/Havana"),
        ("0 */7 * * 1-5", "Africa/Casablanca"),
    ] {
        let (cron, zone) = (Cron::parse(text).unwrap(), Zone::named(zone).unwrap());
        let start = date(2025, 12, 31).to_zoned(zone.time_zone().clone()).unwrap();
        let end = start.checked_add(370.days()).unwrap().timestamp();
        let start = start.timestamp();
        let all: Vec<Timestamp> =
            std::iter::successors(cron.next(start, &zone), |at| cron.next(*at, &zone))
                .take_while(|at| *at <= end)
                .collect();
        assert!(all.is_sorted_by(|a, b| a < b) && !all.is_empty(), "{text}");
        // Every eleventh minute of the year, so that over the zones each kind of hour is hit.
        let minutes = (end.as_second() - start.as_second()) / 60 - 3 * 24 * 60;
        for minute in (0..minutes).step_by(11) {
            let at = Timestamp::from_second(start.as_second() + 60 * minute).unwrap();
            let place = all.partition_point(|occurrence| *occurrence <= at);
            if let Some(wanted) = all.get(place) {
                assert_eq!(cron.next(at, &zone), Some(*wanted), "{text} in {zone} after {at}");
            }
        }
    }
}
