//! Day fields. A crontab that restricts both matches a day when either field does; in Punctual both must match. Two
//! jobs are equivalent: one for the days of the month, one for the weekdays on all other days of the month, so that no
//! day runs twice.

/// Returns the one or two schedules that are equivalent to five fields of a crontab.
pub(super) fn schedules(fields: [&str; 5]) -> Result<Vec<String>, String> {
    let [minute, hour, day, month, weekday] = fields;
    if day.starts_with('*') || weekday.starts_with('*') {
        return Ok(vec![fields.join(" ")]);
    }
    let days = numbers(day)?;
    let first = format!("{minute} {hour} {day} {month} *");
    let rest: Vec<u8> = (1..=31).filter(|day| !days.contains(day)).collect();
    if rest.is_empty() {
        return Ok(vec![first]);
    }
    let rest = day_ranges(&rest);
    Ok(vec![first, format!("{minute} {hour} {rest} {month} {weekday}")])
}

/// Returns the days of the month that a field contains.
fn numbers(field: &str) -> Result<Vec<u8>, String> {
    let wrong = || format!("{field:?} is not a list of days of the month");
    let number = |text: &str| match text.parse::<u8>() {
        Ok(day @ 1..=31) => Ok(day),
        _ => Err(wrong()),
    };
    let mut days = Vec::new();
    for part in field.split(',') {
        let (range, step) = part
            .split_once('/')
            .map_or((part, 1), |(range, step)| (range, step.parse::<usize>().unwrap_or_default()));
        if step == 0 {
            return Err(wrong());
        }
        let (from, to) = match range.split_once('-') {
            Some((from, to)) => (number(from)?, number(to)?),
            None => (number(range)?, number(range)?),
        };
        days.extend((from..=to).step_by(step));
    }
    Ok(days)
}

/// Returns days as a field, adjacent ones as ranges.
fn day_ranges(days: &[u8]) -> String {
    let mut parts: Vec<(u8, u8)> = Vec::new();
    for day in days {
        match parts.last_mut() {
            Some((_, end)) if *end + 1 == *day => *end = *day,
            _ => parts.push((*day, *day)),
        }
    }
    let text = |(from, to): (u8, u8)| {
        if from == to { from.to_string() } else { format!("{from}-{to}") }
    };
    parts.into_iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use punctual::jiff::civil::date;
    use punctual::schedule::{Cron, Zone};

    use super::*;

    fn of(day: &str, weekday: &str) -> Vec<String> {
        schedules(["0", "4", day, "*", weekday]).unwrap()
    }

    #[test]
    fn both_fields_together_become_two_schedules() {
        assert_eq!(of("*", "1-5"), ["0 4 * * 1-5"]);
        assert_eq!(of("*/2", "1"), ["0 4 */2 * 1"]);
        assert_eq!(of("13", "*"), ["0 4 13 * *"]);
        assert_eq!(of("1,15", "FRI"), ["0 4 1,15 * *", "0 4 2-14,16-31 * FRI"]);
        assert_eq!(of("1-31", "5"), ["0 4 1-31 * *"]);
        for wrong in ["32", "x", "1~5", "1/0", ""] {
            assert!(schedules(["0", "4", wrong, "*", "1"]).is_err(), "{wrong}");
        }
    }

    /// Checks every day of two years: the schedules match it once when the crontab would, and never otherwise.
    #[test]
    fn no_day_is_lost_and_none_runs_twice() {
        let zone = Zone::utc();
        let crons: Vec<Cron> =
            of("1-7,28", "5,6").iter().map(|text| Cron::parse(text).unwrap()).collect();
        let mut day = date(2027, 1, 1);
        while day < date(2029, 1, 1) {
            let at = day.at(4, 0, 0, 0).to_zoned(zone.time_zone().clone()).unwrap().timestamp();
            let matching = crons.iter().filter(|cron| cron.matches(at, &zone)).count();
            let weekday = day.weekday().to_sunday_zero_offset();
            let expected = matches!(day.day(), 1..=7 | 28) || matches!(weekday, 5 | 6);
            assert_eq!(matching, usize::from(expected), "{day}");
            day = day.tomorrow().unwrap();
        }
    }
}
