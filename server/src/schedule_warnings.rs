//! Schedule warnings: common mistakes in cron expressions, for the preview, the configuration and the import of a
//! crontab.

use punctual::schedule::Cron;

/// Returns warnings about a cron expression: that it never runs, or that both day fields must match.
pub fn cron_warnings(cron: &Cron) -> Vec<String> {
    if !cron.happens() {
        return vec![
            "the day does not exist in that month, so it never runs; choose a day that the month has"
                .to_owned(),
        ];
    }
    if restricts_both_days(cron) {
        return vec![format!(
            "both the day of the month and the day of the week are set, and both must match: it runs {}; to run on either day, as in other cron programs, use two jobs",
            cron.describe()
        )];
    }
    Vec::new()
}

/// Returns whether both day fields of a cron expression are restricted.
pub(crate) fn restricts_both_days(cron: &Cron) -> bool {
    restricted_days(cron) == Some((true, true))
}

/// Returns whether only the day of the month of a cron expression is restricted.
pub(crate) fn restricts_month_days(cron: &Cron) -> bool {
    restricted_days(cron) == Some((true, false))
}

/// Returns which day fields are restricted. One that begins with a star is not, as in other cron programs.
fn restricted_days(cron: &Cron) -> Option<(bool, bool)> {
    let fields: Vec<&str> = cron.resolved().split_whitespace().collect();
    let is_restricted = |field: &str| !field.starts_with(['*', '?']);
    match fields.as_slice() {
        [_, _, .., day, _, weekday] => Some((is_restricted(day), is_restricted(weekday))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Finding P16 of the newcomer's review.
    #[test]
    fn an_expression_that_never_runs_and_one_with_both_days_have_warnings() {
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
