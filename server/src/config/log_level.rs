//! Log level: what `log.level` may say. A word that is no level would be taken for the name of a module, and the
//! log would be empty.

use tracing::level_filters::LevelFilter;

/// Returns what is wrong with a text such as `info,punctual=debug`. What is about spans, in brackets, is left to the
/// log itself.
pub(super) fn problem(text: &str) -> Option<String> {
    let directives =
        text.split(',').map(str::trim).filter(|one| !one.contains(['[', ']', '{', '}']));
    let level = |one| str::rsplit_once(one, '=').map_or(one, |(_, level)| level);
    let wrong = directives.map(level).find(|level| level.parse::<LevelFilter>().is_err())?;
    Some(format!(
        "{wrong:?} is no level; write error, warn, info, debug, trace or off, or one for each module such as \"info,punctual=debug\""
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Finding P16 of the newcomer's review: a wrong level was silent.
    #[test]
    fn a_word_that_is_no_level_is_refused() {
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
                problem(wrong).unwrap().starts_with(&format!("{word:?} is no level")),
                "{wrong}"
            );
        }
    }
}
