//! Tests of conversions in both directions, at the ends of time, and at the methods that take them.

use ::chrono::{FixedOffset, NaiveDate};
use proptest::prelude::*;

use super::*;
use crate::testing::{START, TestHarness};

proptest! {
    #[test]
    fn an_instant_round_trips(
        nanoseconds in Timestamp::MIN.as_nanosecond()..=Timestamp::MAX.as_nanosecond()
    ) {
        let given = Timestamp::from_nanosecond(nanoseconds).unwrap();
        prop_assert_eq!(instant(date_time(given)).unwrap(), given);
    }

    #[test]
    fn durations_round_trip(milliseconds in -1_000_000_000_000i64..1_000_000_000_000, nanoseconds in 0i32..1_000_000) {
        let given = SignedDuration::from_millis(milliseconds) + SignedDuration::new(0, nanoseconds);
        prop_assert_eq!(signed_duration(time_delta(given)), given);
    }
}

#[test]
fn both_crates_format_the_same_date() {
    for given in [START, Timestamp::UNIX_EPOCH, Timestamp::MIN, Timestamp::MAX] {
        let theirs = date_time(given).format("%s %f").to_string();
        let nanoseconds = given.as_nanosecond().rem_euclid(NANOSECONDS);
        let second = given.as_nanosecond().div_euclid(NANOSECONDS);
        assert_eq!(theirs, format!("{second} {nanoseconds:09}"));
    }
    assert_eq!(date_time(START).to_rfc3339(), "2026-03-02T07:00:00+00:00");
}

#[test]
fn a_zone_does_not_move_the_instant_and_a_leap_second_is_the_next() {
    let east = FixedOffset::east_opt(2 * 3_600).unwrap();
    assert_eq!(instant(date_time(START).with_timezone(&east)).unwrap(), START);
    let leap = NaiveDate::from_ymd_opt(2016, 12, 31).unwrap();
    let leap = leap.and_hms_nano_opt(23, 59, 59, 1_500_000_000).unwrap().and_utc();
    assert_eq!(instant(leap).unwrap().to_string(), "2017-01-01T00:00:00.5Z");
}

#[test]
fn a_value_that_does_not_fit_is_refused_or_cut() {
    let error = instant(DateTime::<Utc>::MAX_UTC).unwrap_err().to_string();
    assert!(error.contains("262142"), "{error}");
    assert!(duration(TimeDelta::seconds(-1)).unwrap_err().to_string().contains("-PT1S"));
    assert_eq!(time_delta(SignedDuration::MAX), TimeDelta::MAX);
    assert_eq!(time_delta(SignedDuration::MIN), TimeDelta::MIN);
}

#[tokio::test]
async fn messages_and_one_time_jobs_are_due_at_the_converted_instants() {
    let harness = TestHarness::start(|builder| builder.handler("remind", async |_: String| {}))
        .await
        .unwrap();
    let publisher = harness.publisher();
    let in_an_hour = date_time(START) + TimeDelta::hours(1);
    publisher.publish("remind", "at").at_chrono(in_an_hour).await.unwrap();
    publisher.publish("remind", "after").after_chrono(TimeDelta::minutes(30)).await.unwrap();
    let jobs = harness.jobs();
    jobs.once("remind").payload("once at").at_chrono(in_an_hour).await.unwrap();
    jobs.once("remind").payload("once after").after_chrono(TimeDelta::hours(2)).await.unwrap();
    let due = |payload: &str| {
        let messages = harness.messages("remind");
        let of = |record: &&crate::model::MessageRecord| {
            record.message.body.read::<String>().is_ok_and(|body| body == payload)
        };
        messages.iter().find(of).unwrap().message.due_at.to_string()
    };
    assert_eq!(due("at"), "2026-03-02T08:00:00Z");
    assert_eq!(due("after"), "2026-03-02T07:30:00Z");
    assert_eq!(due("once at"), "2026-03-02T08:00:00Z");
    assert_eq!(due("once after"), "2026-03-02T09:00:00Z");
    let refused = publisher.publish("remind", "never").after_chrono(TimeDelta::seconds(-1)).await;
    assert!(refused.unwrap_err().to_string().contains("negative"));
    let refused = publisher.publish("remind", "never").at_chrono(DateTime::<Utc>::MAX_UTC).await;
    assert!(refused.unwrap_err().to_string().contains("9999"));
}
