//! Test filters: a module that a filter of `.config/nextest.toml` names exists.
//!
//! A filter without a match is no error for nextest: after a rename its tests would silently run with the
//! default limits.

use super::{Finding, Source};

const SETTINGS: &str = ".config/nextest.toml";
const BEGIN: &str = "test(/^";
const END: &str = "::/)";

pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let Some(settings) = sources.iter().find(|source| source.path == SETTINGS) else {
        return vec![Finding::new(SETTINGS, 0, "the settings of nextest are missing")];
    };
    let mut findings = Vec::new();
    for (number, line) in settings.lines() {
        for filter in line.match_indices("test(").map(|(start, _)| &line[start..]) {
            match module(filter) {
                Some(module) if has_test_file(sources, module) => {}
                Some(module) => findings.push(
                    settings.finding(number, format!("no file of tests is the module `{module}`")),
                ),
                None => findings.push(settings.finding(
                    number,
                    format!("write `{BEGIN}module{END}`, so that the module can be looked up"),
                )),
            }
        }
    }
    findings
}

/// Returns the module that a filter names: `restart` in `test(/^restart::/)`.
fn module(filter: &str) -> Option<&str> {
    let (module, _) = filter.strip_prefix(BEGIN)?.split_once(END)?;
    module.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_').then_some(module)
}

fn has_test_file(sources: &[Source], module: &str) -> bool {
    let file = format!("/{module}.rs");
    sources.iter().any(|source| source.path.contains("/tests/") && source.path.ends_with(&file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(filter: &str) -> usize {
        let settings = Source::new(SETTINGS, format!("filter = \"{filter}\"\n"));
        check(&[settings, Source::new("transports/rabbitmq/tests/it/restart.rs", "")]).len()
    }

    #[test]
    fn a_module_that_exists_is_accepted() {
        assert_eq!(count("package(a) & test(/^restart::/)"), 0);
        assert_eq!(count("package(a)"), 0);
    }

    #[test]
    fn a_module_that_was_renamed_is_found() {
        assert_eq!(count("package(a) & test(/^restarting::/)"), 1);
        assert_eq!(count("test(/^restart::/) + test(/^restarting::/)"), 1);
    }

    #[test]
    fn a_filter_that_cannot_be_looked_up_is_refused() {
        assert_eq!(count("test(/restart/)"), 1);
        assert_eq!(count("test(=restart::one)"), 1);
    }
}
