//! Schedules as a whole: bounds, counts, text, the stored form.

use super::*;
use crate::TextDefaults;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn show(schedule: &Schedule, after: &str, count: usize) -> Vec<String> {
    let times = schedule.occurrences(at(after), Timestamp::MAX).take(count);
    times.map(|at| at.to_string()).collect()
}

#[test]
fn bounds_include_the_start_and_exclude_the_end() {
    let hourly = Schedule::cron_utc("0 * * * *").unwrap();
    let (start, end) = (at("2026-01-01T10:00:00Z"), at("2026-01-01T12:00:00Z"));
    let bounded = hourly.clone().starting(start).unwrap().ending(end).unwrap();
    assert_eq!(
        show(&bounded, "2025-01-01T00:00:00Z", 9),
        ["2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z"]
    );
    assert_eq!(bounded.prev(Timestamp::MAX), Some(at("2026-01-01T11:00:00Z")));
    assert_eq!(bounded.prev(at("2026-01-01T11:00:00Z")), Some(start));
    assert_eq!(bounded.prev(start), None);
    assert_eq!(bounded.count(at("2025-01-01T00:00:00Z"), Timestamp::MAX, 100), 2);
    let error = hourly.clone().starting(end).unwrap().ending(start).unwrap_err();
    assert!(error.to_string().contains("starts at 2026-01-01T12:00:00Z, after its end"));
    assert!(hourly.starting(start).unwrap().ending(start).unwrap().next(Timestamp::MIN).is_none());
}

// spec: U-19
#[test]
fn a_start_at_the_end_of_a_gap_keeps_the_run_moved_there() {
    let schedule = Schedule::cron("30 2 * * *", "Europe/Berlin").unwrap();
    let moved = at("2026-03-29T03:00:00+02:00");
    let schedule = schedule.starting(moved).unwrap();
    assert_eq!(schedule.next(Timestamp::MIN), Some(moved));
}

#[test]
fn counts_intervals_by_division() {
    let anchor = at("2026-01-01T00:00:00Z");
    let schedule = Schedule::every(Duration::from_millis(1), anchor).unwrap();
    assert_eq!(schedule.count(anchor, at("9000-01-01T00:00:00Z"), u64::MAX), 220_078_166_400_000);
    assert_eq!(schedule.count(anchor, at("9000-01-01T00:00:00Z"), 100), 100);
    let bounded = schedule.ending(at("2026-01-01T00:00:01Z")).unwrap();
    assert_eq!(bounded.count(anchor, Timestamp::MAX, u64::MAX), 999);
    let bounded = bounded.starting(at("2026-01-01T00:00:00.5Z")).unwrap();
    assert_eq!(bounded.count(anchor, Timestamp::MAX, u64::MAX), 500);
    assert_eq!(bounded.occurrences(anchor, Timestamp::MAX).count(), 500);
}

#[test]
fn counts_the_rest_by_walking_up_to_a_limit() {
    let daily = Schedule::cron("0 9 * * *", "Europe/Berlin").unwrap();
    let (start, end) = (at("2026-01-01T00:00:00Z"), at("2026-12-31T23:00:00Z"));
    assert_eq!(daily.count(start, end, u64::MAX), 365);
    assert_eq!(daily.count(start, end, 10), 10);
    assert_eq!(daily.count(end, start, 10), 0);
    // Up to and including the end.
    assert_eq!(daily.count(start, at("2026-01-01T08:00:00Z"), 10), 1);
}

#[test]
fn once_happens_once() {
    let noon = at("2026-01-01T12:00:00.5Z");
    let once = Schedule::once(noon);
    assert_eq!(once.next(Timestamp::MIN), Some(noon));
    assert_eq!(once.next(noon), None);
    assert_eq!(once.prev(Timestamp::MAX), Some(noon));
    assert_eq!(once.prev(noon), None);
    assert_eq!(once.count(Timestamp::MIN, noon, 5), 1);
}

#[test]
fn only_intervals_have_an_anchor() {
    let now = at("2026-05-05T05:05:05Z");
    let interval = Schedule::every(Duration::from_secs(10 * 60), Timestamp::UNIX_EPOCH).unwrap();
    assert!(interval.is_interval());
    assert_eq!(interval.reanchored(now).next(now), Some(at("2026-05-05T05:15:05Z")));
    let cron = Schedule::cron_utc("0 * * * *").unwrap();
    assert_eq!(cron.reanchored(now), cron);
    assert!(!cron.is_interval());
    assert!(!interval.follows_last_run());
    assert!(interval.following_last_run().reanchored(now).follows_last_run());
    assert!(!cron.following_last_run().follows_last_run());
}

#[test]
fn reads_and_writes_text() {
    let defaults = TextDefaults {
        zone: Zone::named("Asia/Tokyo").unwrap(),
        anchor: at("2026-01-01T00:00:00Z"),
        seed: Some("job".to_owned()),
    };
    for (text, canonical) in [
        ("0 9 * * MON", "0 9 * * 1 in Asia/Tokyo"),
        ("@daily in europe/berlin", "0 0 * * * in Europe/Berlin"),
        ("every 5m", "every 5m from 2026-01-01T00:00:00Z"),
        (" @EVERY  90s ", "every 1m 30s from 2026-01-01T00:00:00Z"),
        ("every PT5M from 2026-02-01T00:00:00+01:00", "every 5m from 2026-01-31T23:00:00Z"),
        ("every 5m from last run", "every 5m from 2026-01-01T00:00:00Z or last run"),
        (
            "every 5m from 2026-02-01T00:00:00Z or last run",
            "every 5m from 2026-02-01T00:00:00Z or last run",
        ),
        ("at 2026-02-01T00:00:00Z", "at 2026-02-01T00:00:00Z"),
        ("Once 2026-02-01T00:00:00Z", "at 2026-02-01T00:00:00Z"),
        ("once at 2026-02-01T00:00:00Z", "at 2026-02-01T00:00:00Z"),
        ("every 5m from 1970-01-01T00:00:00Z", "every 5m"),
        ("every 5m from 1970-01-01T00:00:00Z or last run", "every 5m from last run"),
        ("0 H(9-9) * * *", "0 9 * * * in Asia/Tokyo"),
    ] {
        let schedule = Schedule::parse(text, &defaults).unwrap();
        assert_eq!(schedule.to_string(), canonical, "{text}");
        assert_eq!(
            Schedule::parse(canonical, &TextDefaults::default()).unwrap(),
            schedule,
            "{text}"
        );
    }
    for (text, words) in [
        ("every", "1 field"),
        ("every 0s", "is zero"),
        ("every now", "cannot be read"),
        ("every 5m from noon", "\"noon\" is not an instant"),
        ("every 5m from noon or last run", "\"noon\" is not an instant"),
        ("at 2026-02-01T00:00:00", "write one such as"),
        ("at 10000-01-01T00:00:00Z", "is not an instant"),
        ("0 9 * * * in Atlantis", "there is no time zone \"Atlantis\""),
        ("60 9 * * *", "minute (position 1)"),
        ("", "empty"),
    ] {
        let error = Schedule::parse(text, &defaults).unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
    assert!(Schedule::parse("H * * * *", &TextDefaults::default()).is_err());
}

// spec: U-19
#[test]
fn keeps_the_parsed_expression_and_may_be_shared_between_threads() {
    fn shareable<T: Send + Sync + Clone>(_: &T) {}
    let schedule = Schedule::cron("0 0 9 * * MON-FRI", "Europe/Berlin").unwrap();
    shareable(&schedule);
    let wanted = schedule.next(Timestamp::UNIX_EPOCH);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(schedule.next(Timestamp::UNIX_EPOCH), wanted));
        }
    });
}

#[test]
fn stores_a_readable_form() {
    let seeded = Cron::parse_seeded("H 3 * * *", "job").unwrap();
    let resolved = seeded.resolved().to_owned();
    let zone = Zone::named("Europe/Berlin").unwrap();
    let holidays = Calendar::new("free", zone.clone(), ["12-25".parse().unwrap()]).unwrap();
    for (schedule, json) in [
        (
            Schedule::cron("*/15 9-17 * * MON-FRI", "Europe/Berlin").unwrap(),
            r#"{"cron":"*/15 9-17 * * MON-FRI","zone":"Europe/Berlin"}"#.to_owned(),
        ),
        (
            Schedule::of_cron(seeded, zone),
            format!(r#"{{"cron":"H 3 * * *","resolved":"{resolved}","zone":"Europe/Berlin"}}"#),
        ),
        (
            Schedule::every(Duration::from_secs(90 * 60), Timestamp::UNIX_EPOCH).unwrap(),
            r#"{"every":"1h 30m","anchor":"1970-01-01T00:00:00Z"}"#.to_owned(),
        ),
        (
            Schedule::every(Duration::from_secs(60), Timestamp::UNIX_EPOCH).unwrap().following_last_run(),
            r#"{"every":"1m","anchor":"1970-01-01T00:00:00Z","follows_last_run":true}"#.to_owned(),
        ),
        (
            Schedule::once(at("2026-01-01T00:00:00.000001Z")),
            r#"{"once":"2026-01-01T00:00:00.000001Z"}"#.to_owned(),
        ),
        (
            Schedule::cron_utc("@daily").unwrap().starting(at("2026-01-01T00:00:00Z")).unwrap()
                .ending(at("2027-01-01T00:00:00Z")).unwrap().at_most(3).excluding(holidays),
            r#"{"cron":"@daily","zone":"UTC","start_at":"2026-01-01T00:00:00Z","end_at":"2027-01-01T00:00:00Z","runs_max":3,"excluding":[{"name":"free","zone":"Europe/Berlin","rules":["12-25"]}]}"#.to_owned(),
        ),
    ] {
        assert_eq!(serde_json::to_string(&schedule).unwrap(), json);
        let again: Schedule = serde_json::from_str(&json).unwrap();
        assert_eq!(again, schedule);
        assert_eq!(serde_json::to_string(&again).unwrap(), json);
    }
}

// spec: T-54
#[test]
fn checks_what_it_reads_back() {
    for (json, words) in [
        (r#"{"cron":"61 * * * *"}"#, "minute (position 1)"),
        (r#"{"cron":"* * * * *","zone":"Mars"}"#, "no time zone"),
        (r#"{"cron":"H * * * *"}"#, "seed"),
        (r#"{"cron":"* * * * *","every":"5m"}"#, "exactly one of"),
        ("{}", "exactly one of"),
        (r#"{"every":"0s"}"#, "is zero"),
        (
            r#"{"once":"2026-01-01T00:00:00Z","start_at":"2027-01-01T00:00:00Z","end_at":"2026-01-01T00:00:00Z"}"#,
            "after its end",
        ),
        (r#"{"cron":"* * * * *","zones":"UTC"}"#, "unknown field"),
    ] {
        let error = serde_json::from_str::<Schedule>(json).unwrap_err().to_string();
        assert!(error.contains(words), "{json}: {error}");
    }
}

#[test]
fn describes_every_kind() {
    let cron = Schedule::cron("30 2 * * *", "Europe/Berlin").unwrap();
    assert_eq!(
        cron.describe(),
        "at 02:30, every day, Europe/Berlin time; once a day, also when the clocks change"
    );
    assert_eq!(Schedule::cron_utc("* * * * *").unwrap().describe(), "every minute, UTC time");
    let every = Schedule::every(Duration::from_secs(5 * 60), Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(every.describe(), "every 5m");
    let anchored = Schedule::every(Duration::from_secs(300), at("2026-01-01T00:02:00Z")).unwrap();
    assert_eq!(anchored.describe(), "every 5m, counted from 2026-01-01T00:02:00Z");
    let once = Schedule::once(at("2026-01-01T00:00:00Z"));
    assert_eq!(once.describe(), "once, at 2026-01-01T00:00:00Z");
    let free = Calendar::new("free days", Zone::utc(), []).unwrap();
    let bounded = once.ending(at("2027-01-01T00:00:00Z")).unwrap().at_most(1).excluding(free);
    assert_eq!(
        bounded.describe(),
        "once, at 2026-01-01T00:00:00Z; until 2027-01-01T00:00:00Z; at most 1 times; except in free days"
    );
}
