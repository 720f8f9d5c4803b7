//! Calendars alone, and searches that must step around them.

use super::*;
use crate::Schedule;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn calendar(zone: &str, rules: &[&str]) -> Calendar {
    let rules = rules.iter().map(|rule| rule.parse().unwrap());
    Calendar::new("test", Zone::named(zone).unwrap(), rules).unwrap()
}

#[test]
fn excludes_by_the_wall_clock_of_its_zone() {
    for (rule, excluded, kept) in [
        ("2026-12-25", "2026-12-24T23:00:00Z", "2026-12-25T23:00:00Z"),
        ("12-25", "2031-12-25T22:59:59Z", "2031-12-24T22:59:59Z"),
        ("02-29", "2028-02-29T12:00:00Z", "2027-02-28T12:00:00Z"),
        ("sat", "2026-12-25T23:00:00Z", "2026-12-26T23:00:00Z"),
        ("2026-12-24T18:00/2026-12-27", "2026-12-24T17:00:00Z", "2026-12-26T23:00:00Z"),
    ] {
        let calendar = calendar("Europe/Berlin", &[rule]);
        assert!(calendar.excludes(at(excluded)), "{rule}");
        assert!(!calendar.excludes(at(kept)), "{rule}");
    }
}

#[test]
fn refuses_rules_and_names_that_mean_nothing() {
    for rule in [
        "",
        "2026-02-30",
        "13-01",
        "02-30",
        "SATURDAY",
        "2026-12-27/2026-12-24",
        "2026-12-24/2026-12-24",
        "/",
        "2026",
        "1-1",
        "é",
        "+2026-1-1",
    ] {
        let error = rule.parse::<DayRule>().unwrap_err().to_string();
        assert!(error.contains("a day of every year (12-25)"), "{rule}: {error}");
    }
    for name in ["", " ", "a\nb", &"x".repeat(101)] {
        assert!(Calendar::new(name, Zone::utc(), []).is_err(), "{name:?}");
    }
    let rule: DayRule = "SAT".parse().unwrap();
    assert!(Calendar::new("many", Zone::utc(), std::iter::repeat(rule)).is_err());
}

#[test]
fn is_stored_as_text() {
    let calendar = calendar(
        "Europe/Berlin",
        &["2026-12-25", "12-25", "SAT", "2026-12-24T18:00:00/2026-12-27T00:00:00"],
    );
    let json = serde_json::to_string(&calendar).unwrap();
    assert_eq!(
        json,
        r#"{"name":"test","zone":"Europe/Berlin","rules":["2026-12-25","12-25","SAT","2026-12-24T18:00:00/2026-12-27T00:00:00"]}"#
    );
    assert_eq!(serde_json::from_str::<Calendar>(&json).unwrap(), calendar);
    assert!(serde_json::from_str::<Calendar>(r#"{"name":"x","rules":["never"]}"#).is_err());
}

#[test]
fn a_search_jumps_over_excluded_days_in_both_directions() {
    let schedule = Schedule::cron("*/10 * * * * *", "America/Havana")
        .unwrap()
        .excluding(calendar("America/Havana", &["SUN", "2026-03-02/2026-03-20"]));
    let (before, after) = (at("2026-03-01T04:59:50Z"), at("2026-03-20T04:00:00Z"));
    // Saturday's last ten seconds, then midnight after the stretch.
    assert_eq!(schedule.next(before), Some(after));
    assert_eq!(schedule.prev(after), Some(before));
}

#[test]
fn a_search_steps_through_a_repeated_hour_around_a_boundary() {
    // The stretch ends at 02:30, which Berlin shows twice that night.
    let rules = ["2026-10-25T00:00/2026-10-25T02:30"];
    let schedule = Schedule::cron("*/15 * * * *", "Europe/Berlin")
        .unwrap()
        .excluding(calendar("Europe/Berlin", &rules));
    let found: Vec<String> = schedule
        .occurrences(at("2026-10-24T20:00:00Z"), at("2026-10-25T02:00:00Z"))
        .skip(7)
        .map(|at| at.to_string())
        .collect();
    let wanted = [
        "2026-10-25T00:30:00Z",
        "2026-10-25T00:45:00Z",
        "2026-10-25T01:30:00Z",
        "2026-10-25T01:45:00Z",
        "2026-10-25T02:00:00Z",
    ];
    assert_eq!(found[..], wanted);
    let back: Vec<Timestamp> =
        std::iter::successors(schedule.prev(at("2026-10-25T02:00:01Z")), |at| schedule.prev(*at))
            .take(6)
            .collect();
    assert_eq!(back[4], at("2026-10-25T00:30:00Z"));
    assert_eq!(back[5], at("2026-10-24T21:45:00Z"));
}

#[test]
fn a_search_ends_when_everything_is_excluded() {
    let week = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
    let schedule = Schedule::cron("* * * * * *", "Europe/Berlin")
        .unwrap()
        .excluding(calendar("Asia/Tokyo", &week));
    assert_eq!(schedule.next(at("2026-01-01T00:00:00Z")), None);
    assert_eq!(schedule.prev(at("2026-01-01T00:00:00Z")), None);
    assert_eq!(schedule.next(at("9999-12-30T20:00:00Z")), None);
    // Something rare is still found: a 29 February on a Thursday.
    let schedule = Schedule::cron("0 0 29 2 *", "UTC")
        .unwrap()
        .excluding(calendar("UTC", &["SUN", "MON", "TUE", "WED", "FRI", "SAT"]));
    assert_eq!(schedule.next(at("2026-01-01T00:00:00Z")), Some(at("2052-02-29T00:00:00Z")));
}

#[test]
fn a_search_finds_exactly_the_times_that_no_rule_covers() {
    for (zone, around) in [
        ("Europe/Berlin", "2026-10-25T01:00:00Z"),
        ("Asia/Beirut", "2026-10-24T21:00:00Z"),
        ("America/Havana", "2026-11-01T05:00:00Z"),
        ("America/Nuuk", "2026-10-25T01:00:00Z"),
        ("Pacific/Apia", "2011-12-30T10:00:00Z"),
    ] {
        let (from, until) = (around.parse::<Timestamp>().unwrap().as_second() - 90_000, 180_000);
        let (from, until) = (second(from), second(from + until));
        let day = Zone::named(zone).unwrap().wall(at(around)).date();
        for rules in [
            vec![day.to_string()],
            vec![day.yesterday().unwrap().to_string()],
            vec![format!("{day}T00:15/{day}T02:20")],
            vec![
                format!("{day}T02:15/{day}T05:00"),
                format!("{day}T23:40/{}T00:20", day.tomorrow().unwrap()),
            ],
            vec![format!("{}T23:40/{day}T00:20", day.yesterday().unwrap())],
        ] {
            let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
            let calendar = calendar(zone, &rules);
            let base = Schedule::cron("*/10 * * * *", zone).unwrap();
            let wanted: Vec<Timestamp> =
                base.occurrences(from, until).filter(|at| !calendar.excludes(*at)).collect();
            let schedule = base.excluding(calendar);
            let found: Vec<Timestamp> = schedule.occurrences(from, until).collect();
            assert_eq!(found, wanted, "{zone} without {rules:?}");
            let mut back: Vec<Timestamp> =
                std::iter::successors(schedule.prev(until), |at| schedule.prev(*at))
                    .take_while(|at| *at > from)
                    .collect();
            back.reverse();
            assert_eq!(
                back,
                wanted.iter().copied().filter(|at| *at < until).collect::<Vec<_>>(),
                "{zone} backwards without {rules:?}"
            );
        }
    }
}

fn second(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}
