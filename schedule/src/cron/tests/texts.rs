//! The rules of the text, as data: accepted texts, refused texts, error messages.
#![expect(clippy::too_many_lines, reason = "tables are long and flat")]

use super::cron;
use crate::{Cron, CronError, CronErrorKind as Kind, CronField as Field};

fn refused(text: &str) -> CronError {
    match Cron::parse(text) {
        Err(error) => error,
        Ok(cron) => panic!("{text:?} was read as {cron}"),
    }
}

// spec: U-4, U-19
#[test]
fn lists_sorted_values_as_canonical_text() {
    for (text, canonical) in [
        ("*/15 9-17 * * MON-FRI", "0,15,30,45 9,10,11,12,13,14,15,16,17 * * 1,2,3,4,5"),
        ("0 0 0 1 1 *", "0 0 1 1 *"),
        ("30 0 0 1 1 *", "30 0 0 1 1 *"),
        ("* * * * * *", "* * * * * *"),
        ("?  ?\t? ? ? ?", "* * * * * *"),
        (" \t09 5 * * * ", "9 5 * * *"),
        ("0-59 0-23 1-31 1-12 0-6", "* * * * *"),
        ("? ?/6 * JAN-DEC 1-7", "* 0,6,12,18 * * *"),
        ("3,1,2,1-2 0 * * *", "1,2,3 0 * * *"),
        ("58-2 22-2 30-2 11-2 5-1", "0,1,2,58,59 0,1,2,22,23 1,2,30,31 1,2,11,12 0,1,5,6"),
        ("0 0 20-5/5 * *", "0 0 4,20,25,30 * *"),
        ("0 22-5/3 * * *", "0 1,4,22 * * *"),
        ("0 0 * 10-3/2 *", "0 0 * 2,10,12 *"),
        ("0 0 * * 7", "0 0 * * 0"),
        ("0 0 * * 5/1", "0 0 * * 0,5,6"),
        ("0 0 * * 1/2", "0 0 * * 0,1,3,5"),
        ("0 0 * * */2", "0 0 * * 0,2,4,6"),
        ("0 0 * * */7", "0 0 * * 0"),
        ("0 0 * * 7-3/2", "0 0 * * 0,2"),
        ("0 0 * * 7-3", "0 0 * * 0,1,2,3"),
        ("0 0 * * 5-1/2", "0 0 * * 0,5"),
        ("0 0 * * 6-7", "0 0 * * 0,6"),
        ("0 0 * * mon-5", "0 0 * * 1,2,3,4,5"),
        ("0 0 * * SUN,6", "0 0 * * 0,6"),
        ("0 0 1/10 * *", "0 0 1,11,21,31 * *"),
        ("50/5 * * * *", "50,55 * * * *"),
        ("*/59 */23 */31 */12 */7", "0,59 0,23 1 1 0"),
        ("0 0 L * *", "0 0 L * *"),
        ("0 0 l-0 * *", "0 0 L * *"),
        ("0 0 L-30 * *", "0 0 L-30 * *"),
        ("0 0 lw * *", "0 0 LW * *"),
        ("0 0 L-05W * *", "0 0 L-5W * *"),
        ("0 0 15w * *", "0 0 15W * *"),
        ("0 0 * * friL", "0 0 * * 5L"),
        ("0 0 * * 7L", "0 0 * * 0L"),
        ("0 0 * * sun#5", "0 0 * * 0#5"),
        ("@yearly", "0 0 1 1 *"),
        ("@Annually", "0 0 1 1 *"),
        (" \t@DAILY\t ", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@hourly", "0 * * * *"),
        ("@every_minute", "* * * * *"),
        ("@every_Second", "* * * * * *"),
    ] {
        assert_eq!(cron(text).to_string(), canonical, "{text:?}");
    }
}

// spec: T-54, U-4
#[test]
fn names_the_first_field_at_fault_and_the_place() {
    for (text, kind, field, position) in [
        ("60 * * * *", Kind::Value, Field::Minute, 0),
        ("* 24 * * *", Kind::Value, Field::Hour, 2),
        ("* * 0 * *", Kind::Value, Field::Day, 4),
        ("* * 32 * *", Kind::Value, Field::Day, 4),
        ("* * * 13 *", Kind::Value, Field::Month, 6),
        ("* * * * 8", Kind::Value, Field::Weekday, 8),
        ("60 * * * * *", Kind::Value, Field::Second, 0),
        ("007 * * * *", Kind::Value, Field::Minute, 0),
        ("99 99 * * *", Kind::Value, Field::Minute, 0),
        ("-1 * * * *", Kind::Value, Field::Minute, 0),
        ("1- * * * *", Kind::Value, Field::Minute, 2),
        ("1,, * * * *", Kind::Value, Field::Minute, 2),
        (",1 * * * *", Kind::Value, Field::Minute, 0),
        ("1, * * * *", Kind::Value, Field::Minute, 2),
        ("*/60 * * * *", Kind::Step, Field::Minute, 2),
        ("* */24 * * *", Kind::Step, Field::Hour, 4),
        ("* * */32 * *", Kind::Step, Field::Day, 6),
        ("* * * */13 *", Kind::Step, Field::Month, 8),
        ("* * * * */8", Kind::Step, Field::Weekday, 10),
        ("*/0 * * * *", Kind::Step, Field::Minute, 2),
        ("*/ * * * *", Kind::Step, Field::Minute, 2),
        ("* * * */JAN *", Kind::Step, Field::Month, 8),
        ("*,5 * * * *", Kind::Unexpected, Field::Minute, 1),
        ("5,* * * * *", Kind::Value, Field::Minute, 2),
        ("?,5 * * * *", Kind::Unexpected, Field::Minute, 1),
        ("*/5,3 * * * *", Kind::Unexpected, Field::Minute, 3),
        ("*-5 * * * *", Kind::Unexpected, Field::Minute, 1),
        ("1/2/3 * * * *", Kind::Unexpected, Field::Minute, 3),
        ("1-2-3 * * * *", Kind::Unexpected, Field::Minute, 3),
        ("L * * * *", Kind::Value, Field::Minute, 0),
        ("* L * * *", Kind::Value, Field::Hour, 2),
        ("* * 1,L * *", Kind::Value, Field::Day, 6),
        ("* * L,1 * *", Kind::Unexpected, Field::Day, 5),
        ("* * 1W,15 * *", Kind::Unexpected, Field::Day, 6),
        ("* * 1-5W * *", Kind::Unexpected, Field::Day, 7),
        ("* * 15,1W * *", Kind::Unexpected, Field::Day, 8),
        ("* * W * *", Kind::Value, Field::Day, 4),
        ("* * 0W * *", Kind::Value, Field::Day, 4),
        ("* * L-31 * *", Kind::Value, Field::Day, 6),
        ("* * L- * *", Kind::Value, Field::Day, 6),
        ("* * LW-3 * *", Kind::Unexpected, Field::Day, 6),
        ("* * * L *", Kind::Value, Field::Month, 6),
        ("* * * JANUARY *", Kind::Unexpected, Field::Month, 9),
        ("* * * JA *", Kind::Value, Field::Month, 6),
        ("* * * * L", Kind::Value, Field::Weekday, 8),
        ("* * * * LW", Kind::Value, Field::Weekday, 8),
        ("* * * * MONDAY", Kind::Unexpected, Field::Weekday, 11),
        ("* * * * MON#1,MON#3", Kind::Unexpected, Field::Weekday, 13),
        ("* * * * 1-5L", Kind::Unexpected, Field::Weekday, 11),
        ("* * * * 1#0", Kind::Value, Field::Weekday, 10),
        ("* * * * 1#6", Kind::Value, Field::Weekday, 10),
        ("* * * * 1#", Kind::Value, Field::Weekday, 10),
        ("* * * * #1", Kind::Value, Field::Weekday, 8),
        ("* * * * 1#2L", Kind::Unexpected, Field::Weekday, 11),
        ("* * * * 1\n", Kind::Unexpected, Field::Weekday, 9),
        ("h * * * *", Kind::Value, Field::Minute, 0),
        ("H * * * *", Kind::SeedMissing, Field::Minute, 0),
        ("* * * * H/2", Kind::SeedMissing, Field::Weekday, 8),
        ("é * * * *", Kind::Value, Field::Minute, 0),
        ("1é * * * *", Kind::Unexpected, Field::Minute, 1),
        ("* * * * é,é", Kind::Value, Field::Weekday, 8),
    ] {
        let error = refused(text);
        let found = (error.kind(), error.field(), error.position());
        assert_eq!(found, (kind, Some(field), position), "{text:?}: {error}");
        assert!(error.to_string().starts_with(field.name()), "{error}");
        assert!(error.to_string().contains(&format!("position {}", position + 1)), "{error}");
    }
}

// spec: T-54
#[test]
fn refuses_texts_that_are_not_five_or_six_fields() {
    for (text, kind, words) in [
        ("", Kind::Empty, "empty"),
        (" \t ", Kind::Empty, "empty"),
        ("*", Kind::FieldCount, "1 field, but"),
        ("* * * *", Kind::FieldCount, "the day of week is missing"),
        ("* * * * * * *", Kind::FieldCount, "years are not a field"),
        ("0 0 0 1 1 * 2030", Kind::FieldCount, "start and end"),
        ("99 * * * * * * * *", Kind::FieldCount, "9 fields"),
        ("* * *\n* *", Kind::FieldCount, "spaces and tabs only"),
        ("*\u{a0}* * * *", Kind::FieldCount, "spaces and tabs only"),
        ("@reboot", Kind::Macro, "@every_second"),
        ("@every 5m", Kind::Macro, "a schedule of its own"),
        ("@", Kind::Macro, "not a macro"),
        ("@ daily", Kind::Macro, "not a macro"),
        ("@daily @daily", Kind::Macro, "nothing may follow"),
        ("@daily\n", Kind::Macro, "not a macro"),
    ] {
        let error = refused(text);
        assert_eq!(error.kind(), kind, "{text:?}: {error}");
        assert!(error.to_string().contains(words), "{text:?}: {error}");
    }
}

#[test]
fn errors_name_what_would_be_valid() {
    for (text, words) in [
        ("60 * * * *", "minute (position 1): 60 is out of range, use 0 to 59"),
        ("007 * * * *", "minute (position 1): 007 has more than two digits, use 0 to 59"),
        ("*/60 * * * *", "minute (position 3): the step 60 is out of range, use 1 to 59"),
        (
            "* * * * 1#6",
            "day of week (position 11): the count within the month 6 is out of range, use 1 to 5",
        ),
        (
            "* * * X *",
            "month (position 7): 'X' stands where a value should be, use 1 to 12 or JAN to DEC",
        ),
    ] {
        assert_eq!(refused(text).to_string(), words);
    }
}

#[test]
fn compares_by_meaning() {
    assert_eq!(cron("0 0 * * 0"), cron("0 0 * * SUN"));
    assert_eq!(cron("0 0 * * 7"), cron("0 0 0 ? ? 0"));
    assert_eq!(cron("1-3 * * * *"), cron("1,2,3 * * * *"));
    assert_ne!(cron("0 0 31 1 *"), cron("0 0 L 1 *"));
    // The same times, but the second one runs in a repeated hour too.
    assert_ne!(cron("0,30 2 * * *"), cron("0/30 2 * * *"));
}

// spec: U-19, U-46
#[test]
fn detects_expressions_that_follow_elapsed_time() {
    for text in [
        "* 1 * * *",
        "1 ? * * *",
        "1-1 1 * * *",
        "0/59 1 * * *",
        "1,2-3 1 * * *",
        "0 1-2 * * *",
        "* 1 1 * * *",
    ] {
        assert!(cron(text).is_interval_like(), "{text}");
    }
    for text in ["0 1 * * *", "0,30 1,2 */2 1-3 MON-FRI", "1 1 1 L * *", "@daily", "@weekly"] {
        assert!(!cron(text).is_interval_like(), "{text}");
    }
    let seeded = |text| Cron::parse_seeded(text, "job").unwrap().is_interval_like();
    assert!(seeded("H/10 1 * * *") && seeded("H(0-9)/3 1 * * *"));
    assert!(!seeded("H H H H H") && !seeded("H(0-9) 1 H/3 * *"));
}

#[test]
fn draws_the_same_values_for_the_same_seed() {
    let drawn = |text, seed| Cron::parse_seeded(text, seed).unwrap().resolved().to_owned();
    // Frozen: these values may never change.
    assert_eq!(drawn("H H H H H", "nightly-report"), GOLDEN);
    assert_eq!(drawn("H/15 H(0-7) * * H(MON-FRI)", "nightly-report"), GOLDEN_RANGES);
    assert_ne!(drawn("H H * * *", "a"), drawn("H H * * *", "b"));
    for seed in 0..500 {
        let seed = seed.to_string();
        for text in [
            "H H H H H H",
            "H/7 H/5 H/5 H/30 H/5 H/2",
            "H(5-9) H(5-9)/2 H(22-23) H(1-28)/31 H(2-3) H(0-6)",
        ] {
            let cron = Cron::parse_seeded(text, &seed).unwrap();
            assert_eq!(
                cron,
                Cron::parse(cron.resolved()).unwrap(),
                "{text} drew {}",
                cron.resolved()
            );
            assert_eq!(cron.source(), text);
            assert!(
                cron.to_string()
                    .split(' ')
                    .nth(3)
                    .unwrap()
                    .split(',')
                    .all(|day| day.parse::<u8>().unwrap() <= 28)
            );
        }
    }
    for text in [
        "H(9-5) * * * *",
        "H(0-60) * * * *",
        "* * H(1-29) * *",
        "* * * * H(0-7)",
        "H( * * * *",
        "H(1) * * * *",
        "H(1-2 * * * *",
        "H/60 * * * *",
        "H,5 * * * *",
        "5,H * * * *",
        "H-5 * * * *",
    ] {
        assert!(Cron::parse_seeded(text, "job").is_err(), "{text}");
    }
    // Macros are not spread.
    assert_eq!(Cron::parse_seeded("@daily", "job").unwrap(), cron("@daily"));
}

const GOLDEN: &str = "1 1 26 2 2";
const GOLDEN_RANGES: &str = "1-59/15 1 * * 4";

#[test]
fn describes_every_kind() {
    for (text, words) in [
        ("* * * * * *", "every second"),
        ("* * * * *", "every minute"),
        ("*/5 * * * *", "every 5 minutes"),
        ("*/10 * * * * *", "every 10 seconds"),
        ("*/7 1 * * *", "at minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56 of hour 1"),
        ("0 * * * *", "at minute 0 of every hour"),
        ("5 * * * * *", "at second 5 of every minute"),
        ("* 5 * * * *", "every second of minute 5 of every hour"),
        ("0 */2 * * *", "at minute 0 of every 2nd hour"),
        ("*/15 9-17 * * MON-FRI", "every 15 minutes of hours 9 to 17, on Monday to Friday"),
        ("30 2 * * *", "at 02:30, every day"),
        ("15 30 2 * * *", "at 02:30:15, every day"),
        ("0 9,17 * * *", "at 09:00 and 17:00, every day"),
        ("0 0 1,15 * *", "at 00:00, on days 1 and 15 of the month"),
        ("0 0 13 * 5", "at 00:00, on day 13 of the month, only if it is a Friday"),
        ("0 0 L * *", "at 00:00, on the last day of the month"),
        ("0 0 L-1 * *", "at 00:00, on the day before the last day of the month"),
        ("0 0 L-3 * *", "at 00:00, on the day 3 days before the last day of the month"),
        ("0 0 LW * *", "at 00:00, on the last workday (Monday to Friday) of the month"),
        (
            "0 0 L-3W * *",
            "at 00:00, on the workday (Monday to Friday) nearest to the day 3 days before the last day of the month",
        ),
        (
            "0 0 15W * *",
            "at 00:00, on the workday (Monday to Friday) nearest to day 15 of the month",
        ),
        ("0 0 * * 5#2", "at 00:00, on the second Friday of the month"),
        ("0 0 * * 0L", "at 00:00, on the last Sunday of the month"),
        (
            "0 0 L * 5L",
            "at 00:00, on the last day of the month, only if it is the last Friday of the month",
        ),
        ("0 0 * 6-8,12 *", "at 00:00, in June to August and December"),
        ("0 0 1 1 *", "at 00:00, on day 1 of the month, in January"),
        (
            "0 0 30 2 *",
            "at 00:00, on day 30 of the month, in February, which no calendar has, so it never runs",
        ),
    ] {
        assert_eq!(cron(text).describe(), words, "{text}");
    }
    for (text, note) in [
        ("30 2 * * *", "once a day, also when the clocks change"),
        ("30 2 1 * *", "once on such a day, also when the clocks change"),
        ("0,30 2 * * *", "each of these times once, also when the clocks change"),
        ("30 * * * *", "also in the repeated hour when the clocks go back"),
    ] {
        assert_eq!(cron(text).clock_change_note(), note, "{text}");
    }
}
