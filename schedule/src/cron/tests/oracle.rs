//! Oracle: a second implementation, written as differently as possible. It steps through time
//! second by second, watches the wall clock, and tests every text field by
//! spelling it out. It detects gaps only as jumps of the wall clock forward and
//! folds as repeated times.

use std::collections::BTreeSet;

use jiff::civil::DateTime;
use jiff::{Timestamp, ToSpan, Unit};

use super::generate::{Random, ZONES, random_expression};
use crate::{Cron, Zone};

/// Cases of the comparison in bulk, unless `PUNCTUAL_CRON_CASES` sets the number: some seconds of work.
const BULK_CASES_DEFAULT: u64 = 300;

/// Every occurrence within a span, in seconds since 1970.
pub(super) fn occurrences(text: &str, zone: &Zone, from: i64, until: i64) -> BTreeSet<i64> {
    let plain = Plain::read(text);
    let wall = |second: i64| {
        let at = Timestamp::from_second(second).unwrap();
        zone.time_zone().to_datetime(at)
    };
    // A day and a half ahead, so that a fold under way at the start is known.
    let mut latest = wall(from - 130_000);
    for second in (from - 130_000..from).step_by(60) {
        latest = latest.max(wall(second));
    }
    latest = latest.max(wall(from - 1));
    let mut found = BTreeSet::new();
    for second in from..=until {
        let now = wall(second);
        if now > latest {
            let mut skipped = latest + 1.second();
            while skipped < now {
                if plain.matches(skipped) {
                    found.insert(second);
                    break;
                }
                skipped += 1.second();
            }
        }
        let repeated = now <= latest;
        if plain.matches(now) && (!repeated || plain.interval_like) {
            found.insert(second);
        }
        latest = latest.max(now);
    }
    found
}

/// The words of a text, each tested anew for every time.
struct Plain {
    words: Vec<String>,
    interval_like: bool,
}

impl Plain {
    fn read(text: &str) -> Plain {
        let mut words: Vec<String> = text.split_whitespace().map(str::to_uppercase).collect();
        if words.len() == 5 {
            words.insert(0, "0".to_owned());
        }
        let interval_like = words[..3].iter().any(|word| word.contains(['*', '?', '-', '/']));
        Plain { words, interval_like }
    }

    fn matches(&self, wall: DateTime) -> bool {
        let time = [wall.second(), wall.minute(), wall.hour()];
        time.iter()
            .zip(&self.words)
            .zip([59, 59, 23])
            .all(|((value, word), last)| listed(word, 0, last, last + 1, i64::from(*value)))
            && listed(&months(&self.words[4]), 1, 12, 12, wall.month().into())
            && day_matches(&self.words[3], wall)
            && weekday_matches(&self.words[5], wall)
    }
}

fn listed(word: &str, first: i64, last: i64, cycle: i64, value: i64) -> bool {
    word.split(',').any(|item| {
        let (range, step) = item.split_once('/').unwrap_or((item, ""));
        let (low, high) = match range.split_once('-') {
            Some((low, high)) => (low.parse().unwrap(), high.parse().unwrap()),
            None if range == "*" || range == "?" => (first, last),
            None if step.is_empty() => return range.parse() == Ok(value),
            None => (range.parse().unwrap(), last),
        };
        let mut place = low;
        let end = if low <= high { high } else { high + cycle };
        while place <= end {
            if place == value || place > last && place - cycle == value {
                return true;
            }
            place += step.parse().unwrap_or(1);
        }
        false
    })
}

fn months(word: &str) -> String {
    let names = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC";
    names
        .split(' ')
        .zip(1..)
        .fold(word.to_owned(), |word, (name, number)| word.replace(name, &number.to_string()))
}

fn day_matches(word: &str, wall: DateTime) -> bool {
    let date = wall.date();
    if !word.contains(['L', 'W']) {
        return listed(word, 1, 31, 31, date.day().into());
    }
    let (base, moved) = match word.strip_suffix('W') {
        Some(base) => (base, true),
        None => (word, false),
    };
    let target = match base.strip_prefix('L') {
        Some("") => Some(date.last_of_month()),
        Some(before) => {
            let before: i64 = before.trim_start_matches('-').parse().unwrap();
            let day = date.last_of_month() - before.days();
            (day.month() == date.month()).then_some(day)
        }
        None => {
            let day: i64 = base.parse().unwrap();
            let day = date.first_of_month() + (day - 1).days();
            (day.month() == date.month()).then_some(day)
        }
    };
    let Some(target) = target else { return false };
    if !moved {
        return date == target;
    }
    // The nearest by distance; a Saturday and a Sunday never tie.
    let workdays = (-2..=2).map(|days: i64| target + days.days()).filter(|day| {
        day.month() == target.month() && (1..=5).contains(&day.weekday().to_monday_one_offset())
    });
    let nearest =
        workdays.min_by_key(|day| target.until((Unit::Day, *day)).unwrap().get_days().abs());
    nearest == Some(date)
}

fn weekday_matches(word: &str, wall: DateTime) -> bool {
    let names = "SUN MON TUE WED THU FRI SAT";
    let word = names.split(' ').zip(0..).fold(word.to_owned(), |word, (name, number): (_, i32)| {
        word.replace(name, &number.to_string())
    });
    let today = i64::from(wall.weekday().to_sunday_zero_offset());
    let is_today = |digit: &str| digit.parse::<i64>().unwrap() % 7 == today;
    if let Some(digit) = word.strip_suffix('L') {
        return is_today(digit) && (wall + 7.days()).month() != wall.month();
    }
    if let Some((digit, nth)) = word.split_once('#') {
        return is_today(digit)
            && (i64::from(wall.day()) - 1) / 7 + 1 == nth.parse::<i64>().unwrap();
    }
    // A range from 7 starts with Sunday, as one from 0 does.
    let word: Vec<String> = word
        .split(',')
        .map(|item| match item.strip_prefix("7-") {
            Some(rest) if !rest.starts_with('7') => format!("0-{rest}"),
            _ => item.to_owned(),
        })
        .collect();
    let word = word.join(",");
    listed(&word, 0, 7, 7, today) || today == 0 && listed(&word, 0, 7, 7, 7)
}

/// Compares both directions with the oracle within some hours of an instant.
fn check_around(text: &str, zone: &Zone, change: i64, random: &mut Random) {
    let (from, until) = (change - 2 * 3_600 - 1_800, change + 3 * 3_600);
    let wanted = occurrences(text, zone, from, until);
    let cron = Cron::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let at = |second| Timestamp::from_second(second).unwrap();
    let context = format!("{text} in {zone} around {}", at(change));

    let forward: BTreeSet<i64> =
        std::iter::successors(cron.next(at(from - 1), zone), |t| cron.next(*t, zone))
            .map(Timestamp::as_second)
            .take_while(|second| *second <= until)
            .collect();
    assert_eq!(forward, wanted, "forward: {context}");
    let backward: BTreeSet<i64> =
        std::iter::successors(cron.prev(at(until + 1), zone), |t| cron.prev(*t, zone))
            .map(Timestamp::as_second)
            .take_while(|second| *second >= from)
            .collect();
    assert_eq!(backward, wanted, "backward: {context}");

    let gap_length = zone.offset(at(change)).seconds() - zone.offset(at(change - 1)).seconds();
    for i in 0..24 {
        let second = match i % 4 {
            0 => change + random.below(5) - 2,
            1 => change - i64::from(gap_length.abs()) + random.below(5) - 2,
            2 => change + i64::from(gap_length.abs()) + random.below(5) - 2,
            _ => from + random.below(until - from),
        };
        let second = second.clamp(from, until);
        let nanosecond = if random.below(3) == 0 { 500_000_000 } else { 0 };
        let start = Timestamp::new(second, nanosecond).unwrap();
        let next = wanted.range(second + 1..).next().copied();
        if let Some(next) = next {
            assert_eq!(cron.next(start, zone), Some(at(next)), "next after {start}: {context}");
        }
        let last = if nanosecond == 0 { second - 1 } else { second };
        let prev = wanted.range(..=last).next_back().copied();
        if let Some(prev) = prev {
            assert_eq!(cron.prev(start, zone), Some(at(prev)), "prev before {start}: {context}");
        }
        let reads = nanosecond == 0
            && wanted.contains(&second)
            && Plain::read(text).matches(zone.wall(start));
        assert_eq!(cron.matches(start, zone), reads, "inclusive at {start}: {context}");
    }
}

/// The instants at which the offset of a zone changes between two years.
pub(super) fn clock_changes(zone: &Zone, from_year: i16, to_year: i16) -> Vec<i64> {
    let start = jiff::civil::date(from_year, 1, 1).to_zoned(jiff::tz::TimeZone::UTC).unwrap();
    let mut offset = zone.offset(start.timestamp());
    let mut changes = Vec::new();
    for transition in zone.time_zone().following(start.timestamp()).take(2_000) {
        let at = transition.timestamp();
        if at.to_zoned(jiff::tz::TimeZone::UTC).year() > to_year {
            break;
        }
        if transition.offset() != offset {
            changes.push(at.as_second());
        }
        offset = transition.offset();
    }
    changes
}

/// Compares random expressions around random clock changes of some zones.
fn check_zones(zones: &[&str], years: (i16, i16), cases: usize, seed: u64) {
    let mut random = Random::new(seed);
    let mut compared = 0;
    for _ in 0..cases {
        let zone = Zone::named(random.pick(zones)).unwrap();
        let changes = clock_changes(&zone, years.0, years.1);
        if changes.is_empty() {
            continue;
        }
        let change = random.pick(&changes);
        let near = Timestamp::from_second(change + random.below(9_000) - 4_500).unwrap();
        let text = random_expression(&mut random, zone.wall(near));
        check_around(&text, &zone, change, &mut random);
        compared += 1;
    }
    assert!(compared >= cases / 2, "only {compared} of {cases} zones change their clocks");
}

// spec: U-19, U-46
#[test]
fn agrees_with_the_oracle_around_clock_changes() {
    check_zones(&ZONES, (1970, 2060), 120, 7);
}

/// Compares in every zone there is, over two and a half centuries. `cargo xtask test --full` has many more
/// cases. After a change of the search, choose cases and seed:
/// `PUNCTUAL_CRON_CASES=20000 PUNCTUAL_CRON_SEED=3 cargo test --release -p punctual-schedule in_bulk`.
#[test]
fn agrees_with_the_oracle_in_bulk() {
    let number = |variable: &str| std::env::var(variable).ok().map(|text| text.parse().unwrap());
    let seed = number("PUNCTUAL_CRON_SEED").unwrap_or(1);
    let cases = number("PUNCTUAL_CRON_CASES").unwrap_or(BULK_CASES_DEFAULT);
    let cases = usize::try_from(cases).unwrap();
    let names: Vec<String> = jiff::tz::db().available().map(|name| name.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    check_zones(&names, (1840, 2100), cases, seed);
}

// spec: U-19
#[test]
fn agrees_with_the_oracle_across_the_day_apia_left_out() {
    let zone = Zone::named("Pacific/Apia").unwrap();
    let change = "2011-12-30T10:00:00Z".parse::<Timestamp>().unwrap().as_second();
    for text in [
        "0 12 * * *",
        "30 * 30 12 *",
        "0 0 31 12 *",
        "*/20 5 * * FRI",
        "0 0 0 L * *",
        "59 59 23 29 * *",
    ] {
        check_around(text, &zone, change, &mut Random::new(1));
    }
}
