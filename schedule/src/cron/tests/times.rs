//! The rules of time, as data: days, ends, gaps and folds.
#![expect(clippy::too_many_lines, reason = "tables are long and flat")]

use jiff::Timestamp;

use super::cron;
use crate::{CronErrorKind as Kind, Zone};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// The occurrences after a start, in the words of the zone; both directions.
fn check(text: &str, zone: &str, after: &str, wanted: &[&str]) {
    let (cron, zone) = (cron(text), Zone::named(zone).unwrap());
    let show = |at: Timestamp| at.display_with_offset(zone.offset(at)).to_string();
    let mut found = at(after);
    for wanted in wanted {
        found = cron.next(found, &zone).unwrap_or_else(|| panic!("{text}: no {wanted}"));
        assert_eq!(show(found), *wanted, "{text} after {after} in {zone}");
    }
    for wanted in wanted.iter().rev().skip(1) {
        found = cron.prev(found, &zone).unwrap();
        assert_eq!(show(found), *wanted, "{text} backwards in {zone}");
    }
}

// spec: U-19
#[test]
fn requires_both_day_fields() {
    check(
        "0 0 13 * 5",
        "UTC",
        "2026-01-01T00:00:00Z",
        &["2026-02-13T00:00:00+00:00", "2026-03-13T00:00:00+00:00", "2026-11-13T00:00:00+00:00"],
    );
    check(
        "0 0 29 2 1",
        "UTC",
        "2026-01-01T00:00:00Z",
        &["2044-02-29T00:00:00+00:00", "2072-02-29T00:00:00+00:00", "2112-02-29T00:00:00+00:00"],
    );
    check("0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", &["2104-02-29T00:00:00+00:00"]);
    // 1 February 2026 is a Sunday: the 2nd; 1 August 2026 a Saturday: the 3rd.
    check(
        "0 0 1W 2,8 *",
        "UTC",
        "2026-01-01T00:00:00Z",
        &["2026-02-02T00:00:00+00:00", "2026-08-03T00:00:00+00:00"],
    );
    // 31 May 2026 is a Sunday: back to Friday. 31 October a Saturday.
    check(
        "0 0 31W * *",
        "UTC",
        "2026-05-01T00:00:00Z",
        &[
            "2026-05-29T00:00:00+00:00",
            "2026-07-31T00:00:00+00:00",
            "2026-08-31T00:00:00+00:00",
            "2026-10-30T00:00:00+00:00",
        ],
    );
    check(
        "0 0 LW * *",
        "UTC",
        "2026-02-01T00:00:00Z",
        &[
            "2026-02-27T00:00:00+00:00",
            "2026-03-31T00:00:00+00:00",
            "2026-04-30T00:00:00+00:00",
            "2026-05-29T00:00:00+00:00",
        ],
    );
    check(
        "0 0 L-2W * 1",
        "UTC",
        "2026-01-01T00:00:00Z",
        &["2026-03-30T00:00:00+00:00", "2026-06-29T00:00:00+00:00"],
    );
    check("0 0 L-28 2 *", "UTC", "2026-01-01T00:00:00Z", &["2028-02-01T00:00:00+00:00"]);
    check(
        "0 0 * * 1#5",
        "UTC",
        "2026-01-01T00:00:00Z",
        &["2026-03-30T00:00:00+00:00", "2026-06-29T00:00:00+00:00"],
    );
    check("0 0 * 2 1#5", "UTC", "2026-01-01T00:00:00Z", &["2044-02-29T00:00:00+00:00"]);
    check(
        "0 0 * * 5L",
        "UTC",
        "2026-01-31T00:00:00Z",
        &["2026-02-27T00:00:00+00:00", "2026-03-27T00:00:00+00:00"],
    );
}

// spec: U-19
#[test]
fn moves_to_the_nearest_workday_within_the_month() {
    for (text, after, wanted) in [
        // 2 May 2026 is a Saturday, 30 August a Sunday, 1 March a Sunday.
        ("0 0 2W 5 *", "2026-01-01T00:00:00Z", "2026-05-01T00:00:00+00:00"),
        ("0 0 30W 8 *", "2026-01-01T00:00:00Z", "2026-08-31T00:00:00+00:00"),
        ("0 0 L-1W 8 *", "2026-01-01T00:00:00Z", "2026-08-31T00:00:00+00:00"),
        ("0 0 1W 3 *", "2026-01-01T00:00:00Z", "2026-03-02T00:00:00+00:00"),
        // 28 February 2026 is a Saturday, and 2027 a Sunday.
        ("0 0 28W 2 *", "2026-01-01T00:00:00Z", "2026-02-27T00:00:00+00:00"),
        ("0 0 LW 2 *", "2027-01-01T00:00:00Z", "2027-02-26T00:00:00+00:00"),
        ("0 0 29W 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00+00:00"),
    ] {
        check(text, "UTC", after, &[wanted]);
    }
}

// spec: U-19
#[test]
fn looks_back_from_within_a_fold() {
    let berlin = Zone::named("Europe/Berlin").unwrap();
    for (text, before, wanted) in [
        // Fixed times of the second pass do not exist, those of the first do.
        ("30 2 * * *", "2026-10-25T02:45:00+01:00", "2026-10-25T02:30:00+02:00"),
        ("30 2 * * *", "2026-10-25T02:15:00+01:00", "2026-10-25T02:30:00+02:00"),
        ("30 2 * * *", "2026-10-25T03:15:00+01:00", "2026-10-25T02:30:00+02:00"),
        ("30 2 * * *", "2026-10-25T02:30:00+02:00", "2026-10-24T02:30:00+02:00"),
        ("30 * * * *", "2026-10-25T02:45:00+01:00", "2026-10-25T02:30:00+01:00"),
        ("30 * * * *", "2026-10-25T02:15:00+01:00", "2026-10-25T02:30:00+02:00"),
        ("30 * * * *", "2026-10-25T02:15:00+02:00", "2026-10-25T01:30:00+02:00"),
        ("30 1 * * *", "2026-10-25T02:15:00+01:00", "2026-10-25T01:30:00+02:00"),
        // And from within and after a gap.
        ("30 2 * * *", "2026-03-29T03:00:01+02:00", "2026-03-29T03:00:00+02:00"),
        ("30 2 * * *", "2026-03-29T03:00:00+02:00", "2026-03-28T02:30:00+01:00"),
    ] {
        let found = cron(text).prev(at(before), &berlin);
        assert_eq!(found, Some(at(wanted)), "{text} before {before}");
    }
}

// spec: U-19
#[test]
fn rounds_fractions_the_right_way_on_both_sides_of_1970() {
    let (every, utc) = (cron("* * * * * *"), Zone::utc());
    for (start, prev, next) in [
        ("1970-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "1970-01-01T00:00:01Z"),
        ("1969-12-31T23:59:59.5Z", "1969-12-31T23:59:59Z", "1970-01-01T00:00:00Z"),
        ("1969-12-31T23:59:58.000000001Z", "1969-12-31T23:59:58Z", "1969-12-31T23:59:59Z"),
        ("1970-01-01T00:00:00.999999999Z", "1970-01-01T00:00:00Z", "1970-01-01T00:00:01Z"),
    ] {
        assert_eq!(every.prev(at(start), &utc), Some(at(prev)), "{start}");
        assert_eq!(every.next(at(start), &utc), Some(at(next)), "{start}");
    }
}

// spec: U-19
#[test]
fn never_finds_a_date_that_no_calendar_has() {
    let late = at("9990-01-01T00:00:00Z");
    for text in [
        "0 0 30 2 *",
        "0 0 31 4,6,9,11 *",
        "0 0 1W * SUN",
        "0 0 31W 2 *",
        "0 0 L-29 2 *",
        "0 0 1-7 * 1#2",
        "0 0 L * 1#1",
    ] {
        let cron = cron(text);
        assert!(!cron.happens(), "{text}");
        assert_eq!(cron.next(late, &Zone::utc()), None, "{text}");
        assert_eq!(cron.prev(late, &Zone::utc()), None, "{text}");
    }
    for text in ["0 0 29 2 *", "0 0 L-28 2 *", "0 0 * 2 0#5", "0 0 29W 2 *", "0 0 31 * 3"] {
        assert!(cron(text).happens(), "{text}");
    }
}

// spec: U-19
#[test]
fn stops_at_the_last_instant() {
    let utc = Zone::utc();
    let cron = cron("0 0 * * *");
    let last = at("9999-12-30T00:00:00Z");
    assert_eq!(cron.next(at("9999-12-29T12:00:00Z"), &utc), Some(last));
    assert_eq!(cron.next(last, &utc), None);
    check("0 0 1 2 *", "UTC", "9998-02-01T00:00:00Z", &["9999-02-01T00:00:00+00:00"]);
    assert_eq!(cron.next(Timestamp::MAX, &utc), None);
    assert_eq!(cron.prev(Timestamp::MAX, &utc), Some(last));
    assert_eq!(cron.prev(at("0001-01-01T00:00:00Z"), &utc), None);
    assert_eq!(cron.prev(Timestamp::MIN, &utc), None);
    assert!(cron.next(Timestamp::MIN, &utc).is_some());
    for zone in ["Pacific/Kiritimati", "Pacific/Niue", "Europe/Berlin"] {
        let zone = Zone::named(zone).unwrap();
        assert_eq!(cron.next(Timestamp::MAX, &zone), None);
        assert!(cron.prev(Timestamp::MAX, &zone).is_some());
    }
}

// Trap 19: a gap.
// spec: U-19, U-46
#[test]
fn runs_once_at_the_end_of_a_gap() {
    check(
        "30 2 * * *",
        "Europe/Berlin",
        "2026-03-28T12:00:00Z",
        &["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"],
    );
    check(
        "30 * * * *",
        "Europe/Berlin",
        "2026-03-29T00:00:00Z",
        &["2026-03-29T01:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-29T03:30:00+02:00"],
    );
    check(
        "*/10 * * * *",
        "Europe/Berlin",
        "2026-03-29T00:45:00Z",
        &["2026-03-29T01:50:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-29T03:10:00+02:00"],
    );
    check(
        "0,30 2,3 * * *",
        "Europe/Berlin",
        "2026-03-28T12:00:00Z",
        &["2026-03-29T03:00:00+02:00", "2026-03-29T03:30:00+02:00", "2026-03-30T02:00:00+02:00"],
    );
    check(
        "15 2 * * *",
        "Australia/Lord_Howe",
        "2026-10-03T00:00:00Z",
        &["2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"],
    );
    check(
        "0 0 * * *",
        "America/Havana",
        "2026-03-07T12:00:00Z",
        &["2026-03-08T01:00:00-04:00", "2026-03-09T00:00:00-04:00"],
    );
    check(
        "30 0 * * *",
        "Asia/Beirut",
        "2026-03-28T12:00:00Z",
        &["2026-03-29T01:00:00+03:00", "2026-03-30T00:30:00+03:00"],
    );
    check(
        "0 12 * * *",
        "Pacific/Apia",
        "2011-12-28T00:00:00Z",
        &[
            "2011-12-28T12:00:00-10:00",
            "2011-12-29T12:00:00-10:00",
            "2011-12-31T00:00:00+14:00",
            "2011-12-31T12:00:00+14:00",
        ],
    );
}

// spec: U-19, U-46
#[test]
fn runs_fixed_times_in_the_first_pass_and_stepped_ones_in_both() {
    check(
        "30 2 * * *",
        "Europe/Berlin",
        "2026-10-24T12:00:00Z",
        &["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"],
    );
    check(
        "30 * * * *",
        "Europe/Berlin",
        "2026-10-24T23:00:00Z",
        &[
            "2026-10-25T01:30:00+02:00",
            "2026-10-25T02:30:00+02:00",
            "2026-10-25T02:30:00+01:00",
            "2026-10-25T03:30:00+01:00",
        ],
    );
    // From the first pass through the second; from the second, fixed times are over.
    check(
        "0/30 2 * * *",
        "Europe/Berlin",
        "2026-10-25T02:15:00+02:00",
        &[
            "2026-10-25T02:30:00+02:00",
            "2026-10-25T02:00:00+01:00",
            "2026-10-25T02:30:00+01:00",
            "2026-10-26T02:00:00+01:00",
        ],
    );
    check(
        "30 2 * * *",
        "Europe/Berlin",
        "2026-10-25T02:15:00+01:00",
        &["2026-10-26T02:30:00+01:00"],
    );
    check(
        "0 3 * * *",
        "Europe/Berlin",
        "2026-10-25T02:15:00+01:00",
        &["2026-10-25T03:00:00+01:00"],
    );
    check(
        "0 3 * * *",
        "Europe/Berlin",
        "2026-10-25T02:15:00+02:00",
        &["2026-10-25T03:00:00+01:00"],
    );
    check(
        "*/15 1 * * *",
        "Australia/Lord_Howe",
        "2026-04-04T14:20:00Z",
        &[
            "2026-04-05T01:30:00+11:00",
            "2026-04-05T01:45:00+11:00",
            "2026-04-05T01:30:00+10:30",
            "2026-04-05T01:45:00+10:30",
            "2026-04-06T01:00:00+10:30",
        ],
    );
    // The repeated hour before midnight belongs to the same day.
    check(
        "30 23 * * *",
        "Asia/Beirut",
        "2026-10-24T12:00:00Z",
        &["2026-10-24T23:30:00+03:00", "2026-10-25T23:30:00+02:00"],
    );
    check(
        "0 0 * * *",
        "America/Havana",
        "2026-10-31T12:00:00Z",
        &["2026-11-01T00:00:00-04:00", "2026-11-02T00:00:00-05:00"],
    );
}

// spec: U-19
#[test]
fn gives_an_inclusive_start_back_when_the_wall_clock_reads_it() {
    let berlin = Zone::named("Europe/Berlin").unwrap();
    for (text, start, matches) in [
        ("30 2 * * *", "2026-06-01T00:30:00Z", true),
        ("30 2 * * *", "2026-06-01T00:30:00.5Z", false),
        ("30 2 * * *", "2026-06-01T00:30:01Z", false),
        // The shifted run: the wall clock reads 03:00.
        ("30 2 * * *", "2026-03-29T03:00:00+02:00", false),
        ("0 2,3 * * *", "2026-03-29T03:00:00+02:00", true),
        ("30 2 * * *", "2026-10-25T02:30:00+02:00", true),
        ("30 2 * * *", "2026-10-25T02:30:00+01:00", false),
        ("30 * * * *", "2026-10-25T02:30:00+01:00", true),
    ] {
        assert_eq!(cron(text).matches(at(start), &berlin), matches, "{text} at {start}");
    }
    let shifted = at("2026-03-29T03:00:00+02:00");
    let just_before = at("2026-03-29T01:59:59.999+01:00");
    assert_eq!(cron("30 2 * * *").next(just_before, &berlin), Some(shifted));
}

#[test]
fn takes_ranges_from_start_to_before_the_end() {
    let utc = Zone::utc();
    let hourly = cron("0 * * * *");
    let (from, until) = (at("2026-01-01T00:00:00Z"), at("2026-01-01T03:00:00Z"));
    let found: Vec<Timestamp> = hourly.between(from, until, &utc).unwrap().collect();
    assert_eq!(found, [from, at("2026-01-01T01:00:00Z"), at("2026-01-01T02:00:00Z")]);
    assert_eq!(hourly.between(from, from, &utc).unwrap().count(), 0);
    let Err(error) = hourly.between(until, from, &utc) else { panic!("taken") };
    assert_eq!(error.kind(), Kind::Range);
}
