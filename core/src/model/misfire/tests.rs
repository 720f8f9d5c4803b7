//! Tests of the settings: thresholds, names and their aliases, what is refused.

use super::*;

const MINUTE: Duration = Duration::from_mins(1);

// spec: M-2, M-3, H-37
#[test]
fn every_spelling_is_read_and_one_is_printed() {
    assert_eq!(MisfirePolicy::default(), MisfirePolicy::FireNow);
    assert_eq!(Misfire::default().policy_in_force(), MisfirePolicy::FireNow);
    for (text, policy) in [
        ("fire_now", MisfirePolicy::FireNow),
        ("FireNow", MisfirePolicy::FireNow),
        ("FireImmediately", MisfirePolicy::FireNow),
        ("fire-immediately", MisfirePolicy::FireNow),
        ("fire immediately", MisfirePolicy::FireNow),
        ("FIRE_ONCE", MisfirePolicy::FireOnce),
        ("fire-all", MisfirePolicy::FireAll),
        ("SkipToNext", MisfirePolicy::SkipToNext),
        ("SkipAndScheduleNext", MisfirePolicy::SkipToNext),
        ("skip_and_schedule_next", MisfirePolicy::SkipToNext),
    ] {
        assert_eq!(text.parse::<MisfirePolicy>().unwrap(), policy, "{text}");
        assert_eq!(serde_json::from_value::<MisfirePolicy>(text.into()).unwrap(), policy, "{text}");
    }
    for policy in MisfirePolicy::ALL {
        assert_eq!(policy.to_string().parse::<MisfirePolicy>().unwrap(), policy);
        assert_eq!(serde_json::to_value(policy).unwrap(), policy.as_str());
    }
    let error = "fire_maybe".parse::<MisfirePolicy>().unwrap_err().to_string();
    assert!(error.contains("no misfire policy \"fire_maybe\"; use fire_now"), "{error}");
}

// spec: M-4, M-5, M-22, H-39
#[test]
fn the_threshold_is_its_own_or_five_minutes_with_a_policy_or_the_option() {
    let option = 2 * MINUTE;
    let daily = Schedule::cron_utc("0 8 * * *").unwrap();
    let eight = "2026-01-05T08:00:00Z".parse().unwrap();
    for (misfire, expected) in [
        (Misfire::default(), option),
        (Misfire::default().threshold(7 * MINUTE), 7 * MINUTE),
        (Misfire::fire_now(), 5 * MINUTE),
        (Misfire::skip_to_next(), 5 * MINUTE),
        (Misfire::fire_all().threshold(MINUTE), MINUTE),
        (Misfire::fire_once().threshold(Duration::ZERO), Duration::ZERO),
    ] {
        let given = misfire.threshold.is_some();
        let threshold = misfire.threshold_in_force(&daily, eight, option);
        assert_eq!(threshold.duration, expected, "{misfire:?}");
        assert_eq!(threshold.origin == ThresholdOrigin::Given, given, "{misfire:?}");
    }
    let default = Misfire::default().threshold_in_force(&daily, eight, THRESHOLD_DEFAULT);
    assert_eq!(default, Threshold { duration: MINUTE, origin: ThresholdOrigin::Default });
}

// spec: M-4
#[test]
fn a_threshold_that_is_not_given_is_never_longer_than_the_distance_to_the_next_occurrence() {
    // Two minutes apart, then almost a day.
    let uneven = Schedule::cron_utc("0,2 8 * * *").unwrap();
    for (misfire, at, duration, origin) in [
        (Misfire::fire_now(), "08:00", 2 * MINUTE, ThresholdOrigin::NextOccurrence),
        (Misfire::fire_now(), "08:02", 5 * MINUTE, ThresholdOrigin::Default),
        (Misfire::default(), "08:00", MINUTE, ThresholdOrigin::Default),
        (Misfire::fire_now().threshold(3 * MINUTE), "08:00", 3 * MINUTE, ThresholdOrigin::Given),
    ] {
        let at = format!("2026-01-05T{at}:00Z").parse().unwrap();
        let threshold = misfire.threshold_in_force(&uneven, at, MINUTE);
        assert_eq!(threshold, Threshold { duration, origin }, "{misfire:?} at {at}");
    }
    // The last one of all has no next one.
    let once = Schedule::once("2026-01-05T08:00:00Z".parse().unwrap());
    let at = once.as_once().unwrap();
    let threshold = Misfire::fire_now().threshold_in_force(&once, at, MINUTE);
    assert_eq!(threshold.duration, 5 * MINUTE);
    assert_eq!(ThresholdOrigin::NextOccurrence.as_str(), "next_occurrence");
}

#[test]
fn a_limit_that_cannot_be_is_refused_and_all_reads_back_from_json() {
    assert!(Misfire::fire_all().catch_up_max(0).check().is_err());
    assert!(Misfire::fire_all().catch_up_max(10_001).check().is_err());
    let misfire = Misfire::fire_all().catch_up_max(10_000).window(MINUTE).threshold(MINUTE);
    misfire.check().unwrap();
    let text = serde_json::to_string(&misfire).unwrap();
    assert_eq!(serde_json::from_str::<Misfire>(&text).unwrap(), misfire);
    assert_eq!(serde_json::from_str::<Misfire>("{}").unwrap(), Misfire::default());
}
