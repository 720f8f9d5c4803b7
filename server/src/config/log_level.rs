//! Log level: the check of `log.level`. An unknown level would be read as a module name, and the log would be empty.

use tracing::level_filters::LevelFilter;

/// Returns the problem of a value such as `info,punctual=debug`. Span filters in brackets are not checked.
pub(super) fn problem(text: &str) -> Option<String> {
    let directives =
        text.split(',').map(str::trim).filter(|one| !one.contains(['[', ']', '{', '}']));
    let level = |one| str::rsplit_once(one, '=').map_or(one, |(_, level)| level);
    let wrong = directives.map(level).find(|level| level.parse::<LevelFilter>().is_err())?;
    Some(format!(
        "{wrong:?} is not a level; use error, warn, info, debug, trace or off, or one per module such as \"info,punctual=debug\""
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Finding P16 of the newcomer's review: a wrong level was silent.
    #[test]
    fn an_unknown_level_is_refused() {
        for right in [
            "info",
            "INFO",
            "off",
            "",
            "3",
            "info,punctual=debug",
            "warn, a::b=trace",
            "[run{id=1}]",
        ] {
            assert_eq!(problem(right), None, "{right}");
        }
        for (wrong, word) in [("loud", "loud"), ("info,loud", "loud"), ("punctual=lots", "lots")] {
            assert!(
                problem(wrong).unwrap().starts_with(&format!("{word:?} is not a level")),
                "{wrong}"
            );
        }
    }
}
