//! Tests of the three back-offs, their limits and their jitter.

use proptest::prelude::*;
use uuid::Uuid;

use super::*;

fn facts(original_delay: Duration) -> RetryFacts {
    RetryFacts { message: MessageId::from_uuid(Uuid::from_u128(7)), original_delay }
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn exponential(first: Duration, jitter: f64) -> Retry {
    Retry {
        attempts_max: None,
        backoff: BackOffKind::Exponential { first, factor: 2.0, cap: secs(3_600), jitter },
    }
}

// Trap 10.
// spec: T-37, T-38, T-39, T-40, T-41, T-73
#[test]
fn proportional_waits_follow_the_table() {
    let minute = 60;
    let hour = 60 * minute;
    let retry = Retry::proportional();
    for (original, waits) in [
        (0, [1, 1, 1, 1, 1]),
        (minute, [6, 12, 18, 42, 60]),
        (15 * minute, [90, 180, 270, 630, 900]),
        (hour, [6 * minute, 12 * minute, 18 * minute, 42 * minute, 60 * minute]),
        (2 * hour, [12 * minute, 24 * minute, 36 * minute, hour, hour]),
        (10 * hour, [hour; 5]),
        (48 * hour, [hour; 5]),
    ] {
        for (number, wait) in [1, 2, 3, 7, 10].into_iter().zip(waits) {
            assert_eq!(
                retry.delay(number, facts(secs(original))),
                secs(wait),
                "{original} s, retry {number}"
            );
        }
    }
}

// spec: T-38
#[test]
fn the_cap_and_the_floor_of_proportional_waits_are_parameters() {
    let backoff = BackOffKind::Proportional { ratio: 0.1, cap: secs(120), floor: secs(60) };
    let retry = Retry { attempts_max: Some(4), backoff };
    assert_eq!(retry.delay(1, facts(secs(900))), secs(90));
    assert_eq!(retry.delay(2, facts(secs(900))), secs(120));
    assert_eq!(retry.delay(1, facts(secs(10))), secs(60));
}

#[test]
fn exponential_waits_follow_the_table() {
    let retry = exponential(secs(30), 0.0);
    for (number, wait) in (1..).zip([30, 60, 120, 240, 480, 960, 1_920, 3_600, 3_600]) {
        assert_eq!(retry.delay(number, facts(Duration::ZERO)), secs(wait), "retry {number}");
    }
    assert_eq!(retry.delay(0, facts(Duration::ZERO)), secs(30));
    assert_eq!(retry.delay(u32::MAX, facts(Duration::ZERO)), secs(3_600));
}

#[test]
fn jitter_belongs_to_message_and_retry() {
    let retry = exponential(secs(100), 0.2);
    let of = |message: u128, number| {
        let message = MessageId::from_uuid(Uuid::from_u128(message));
        retry.delay(number, RetryFacts { message, original_delay: Duration::ZERO })
    };
    assert_eq!(of(1, 1), of(1, 1));
    assert_ne!(of(1, 1), of(2, 1));
    assert_ne!(of(1, 1), of(1, 2) / 2);
    let mut waits: Vec<Duration> = (0..2_000).map(|message| of(message, 1)).collect();
    waits.sort();
    assert!(waits[0] >= secs(80) && waits[0] < secs(81), "{:?}", waits[0]);
    assert!(waits[1_999] <= secs(120) && waits[1_999] > secs(119), "{:?}", waits[1_999]);
    assert!((97..=103).contains(&waits[1_000].as_secs()), "{:?}", waits[1_000]);
}

// spec: U-26
#[test]
fn a_list_gives_one_retry_for_each_interval_and_repeats_its_last() {
    let retry = Retry::intervals([secs(1), secs(5), secs(30)]);
    assert_eq!(retry.attempts_max, Some(4));
    let more = retry.clone().retries_max(5);
    assert_eq!(more.attempts_max, Some(6));
    for (number, wait) in (1..).zip([1, 5, 30, 30, 30]) {
        assert_eq!(more.delay(number, facts(Duration::ZERO)), secs(wait), "retry {number}");
    }
    assert_eq!(more.delay(u32::MAX, facts(Duration::ZERO)), secs(30));
    assert_eq!(Retry::intervals([]), Retry::none());
}

// spec: H-8
#[test]
fn attempts_are_counted_with_the_first_one() {
    for (retry, last) in [
        (Retry::none(), 1),
        (Retry::default(), 5),
        (Retry::proportional(), 4),
        (Retry::exponential().attempts(0), 1),
        (Retry::exponential().attempts(1), 1),
        (Retry::exponential().retries_max(0), 1),
        (Retry::exponential().retries_max(2), 3),
        (Retry::exponential().retries_max(u32::MAX), u32::MAX),
    ] {
        assert!(!retry.is_exhausted(last - 1), "{retry:?}");
        assert!(retry.is_exhausted(last), "{retry:?}");
    }
    assert!(!Retry::default().unlimited().is_exhausted(u32::MAX));
}

#[test]
fn the_usual_policies_pass_their_check() {
    for retry in [
        Retry::none(),
        Retry::default(),
        Retry::proportional(),
        Retry::intervals([secs(1)]).unlimited(),
    ] {
        retry.check().unwrap();
    }
}

#[test]
fn a_check_names_the_value_and_the_way_out() {
    let exponential =
        |first, factor, jitter| BackOffKind::Exponential { first, factor, cap: secs(60), jitter };
    let proportional = |ratio, floor| BackOffKind::Proportional { ratio, cap: secs(60), floor };
    for (backoff, part) in [
        (exponential(secs(1), 0.5, 0.0), "factor 0.5"),
        (exponential(secs(1), f64::NAN, 0.0), "factor NaN"),
        (exponential(secs(1), f64::INFINITY, 0.0), "factor inf"),
        (exponential(secs(1), 2.0, 1.5), "jitter 1.5"),
        (exponential(secs(1), 2.0, f64::NAN), "jitter NaN"),
        (exponential(secs(61), 2.0, 0.0), "cap 60s is shorter than the first wait 61s"),
        (proportional(-0.1, secs(1)), "ratio -0.1"),
        (proportional(f64::NAN, secs(1)), "ratio NaN"),
        (proportional(0.1, secs(61)), "cap 60s is shorter than the floor 61s"),
        (BackOffKind::Intervals(vec![secs(1); 1_001]), "1001 retry intervals"),
        (BackOffKind::Intervals(Vec::new()), "at least one interval"),
    ] {
        let error = Retry { attempts_max: Some(3), backoff }.check().unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn reads_back_from_json() {
    for retry in [Retry::none(), Retry::default(), Retry::proportional().unlimited()] {
        let text = serde_json::to_string(&retry).unwrap();
        assert_eq!(serde_json::from_str::<Retry>(&text).unwrap(), retry, "{text}");
    }
}

fn any_f64() -> impl Strategy<Value = f64> {
    prop_oneof![any::<f64>(), Just(f64::NAN), Just(f64::INFINITY), 0.0..4.0]
}

fn any_backoff() -> impl Strategy<Value = BackOffKind> {
    prop_oneof![
        prop::collection::vec(any::<Duration>(), 0..4).prop_map(BackOffKind::Intervals),
        (any::<Duration>(), any_f64(), any::<Duration>(), any_f64()).prop_map(
            |(first, factor, cap, jitter)| BackOffKind::Exponential { first, factor, cap, jitter }
        ),
        (any_f64(), any::<Duration>(), any::<Duration>())
            .prop_map(|(ratio, cap, floor)| BackOffKind::Proportional { ratio, cap, floor }),
    ]
}

proptest! {
    #[test]
    fn no_policy_panics_or_waits_longer_than_it_says(
        backoff in any_backoff(),
        number in any::<u32>(),
        original in any::<Duration>(),
    ) {
        let retry = Retry { attempts_max: None, backoff };
        let wait = retry.delay(number, facts(original));
        match &retry.backoff {
            BackOffKind::Intervals(waits) => prop_assert!(waits.is_empty() || waits.contains(&wait)),
            BackOffKind::Exponential { cap, .. } => prop_assert!(wait <= cap.saturating_mul(2)),
            BackOffKind::Proportional { cap, floor, .. } => prop_assert!(wait >= *floor && wait <= (*cap).max(*floor)),
        }
    }

    #[test]
    fn without_jitter_no_wait_is_shorter_than_the_one_before(first in 0_u64..4_000_000, factor in 1.0_f64..10.0, number in 1_u32..100) {
        let first = Duration::from_millis(first);
        let backoff = BackOffKind::Exponential { first, factor, cap: secs(3_600), jitter: 0.0 };
        let retry = Retry { attempts_max: None, backoff };
        prop_assert!(retry.delay(number, facts(Duration::ZERO)) <= retry.delay(number + 1, facts(Duration::ZERO)));
    }
}
