//! Schedule warnings: what people often overlook about a cron text, for the preview, the configuration and the import
//! of a crontab.

use punctual::schedule::Cron;

/// Returns what people often overlook about a cron text: that it never runs, or that both day fields must match.
pub fn cron_warnings(cron: &Cron) -> Vec<String> {
    if !cron.happens() {
        return vec![
            "no calendar has such a day, so it never runs; choose a day that the month has"
                .to_owned(),
        ];
    }
    if restricts_both_days(cron) {
        return vec![format!(
            "both the day of the month and the day of the week are given, and both must match: it runs {}; other crons take either, and if you mean that, make it two jobs",
            cron.describe()
        )];
    }
    Vec::new()
}

/// Returns whether both day fields of a cron text say something.
pub(crate) fn restricts_both_days(cron: &Cron) -> bool {
    restricted_days(cron) == Some((true, true))
}

/// Returns whether the day of the month of a cron text says something, and the day of the week does not.
pub(crate) fn restricts_month_days(cron: &Cron) -> bool {
    restricted_days(cron) == Some((true, false))
}

/// Returns which of the day fields say something. One that begins with a star does not, as in other crons.
fn restricted_days(cron: &Cron) -> Option<(bool, bool)> {
    let fields: Vec<&str> = cron.resolved().split_whitespace().collect();
    let says = |field: &str| !field.starts_with(['*', '?']);
    match fields.as_slice() {
        [_, _, .., day, _, weekday] => Some((says(day), says(weekday))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Finding P16 of the newcomer's review.
    #[test]
    fn a_text_that_never_runs_and_one_with_both_days_are_warned_about() {
        let warnings = |text: &str| cron_warnings(&Cron::parse(text).unwrap()).join("\n");
        assert!(warnings("0 0 31 2 *").contains("never runs; choose"));
        assert!(warnings("0 0 31 2 5").contains("never runs; choose"));
        let friday = warnings("0 0 13 * 5");
        assert!(friday.contains("on day 13 of the month, only if it is a Friday"), "{friday}");
        for usual in ["0 0 29 2 *", "0 0 */2 * 5", "0 0 13 * *", "0 0 * * 5", "0 0 ? * 5", "@daily"]
        {
            assert_eq!(warnings(usual), "", "{usual}");
        }
    }
}
