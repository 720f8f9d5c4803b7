//! Running cases by name, as the standard harness does, with one difference: a back-end whose server
//! is not there shows every case as ignored, never as passed, and as failed when it is required.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

/// Names of back-ends, separated by commas, that must take part.
const REQUIRE: &str = "PUNCTUAL_REQUIRE";

/// A behaviour by its name, ready to be run.
pub(crate) struct Trying {
    pub(crate) name: String,
    /// Why it cannot be tried here, when it cannot: it is ignored then.
    pub(crate) lacks: Option<String>,
    pub(crate) run: Box<dyn FnOnce() -> Result<(), String> + Send>,
}

/// Whether a back-end can be tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Here,
    /// Not there, for this reason.
    Missing(String),
    /// Not there, for this reason, although it must be.
    Required(String),
}

impl Presence {
    /// Judges what is missing by who is required.
    pub(crate) fn of(name: &str, missing: Option<String>) -> Self {
        Self::judge(name, missing, &std::env::var(REQUIRE).unwrap_or_default())
    }

    fn judge(name: &str, missing: Option<String>, required: &str) -> Self {
        // A form of a product has its name behind that of the product: "mqtt-3.1.1" is a form of "mqtt".
        let is_named = |one: &str| {
            let rest = name.strip_prefix(one).filter(|_| !one.is_empty());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        let is_required = required.split(',').any(|one| is_named(one.trim()));
        match missing {
            None => Self::Here,
            Some(reason) if is_required => {
                Self::Required(format!("{reason}, and {REQUIRE} names {name}"))
            }
            Some(reason) => Self::Missing(reason),
        }
    }
}

/// Cases that are there or missing together.
pub(crate) type Group = (Presence, Vec<Trying>);

/// Runs what the command line asks for.
pub(crate) fn run(name: &str, presence: &Presence, cases: Vec<Trying>) -> ExitCode {
    run_as(&Arguments::from_args(), name, vec![(presence.clone(), cases)])
}

/// The same, of groups of cases that do not need the same.
pub(crate) fn run_groups(name: &str, groups: Vec<Group>) -> ExitCode {
    run_as(&Arguments::from_args(), name, groups)
}

/// The same, so many at once unless the command line says how many.
pub(crate) fn run_at_once(
    count: usize,
    name: &str,
    presence: &Presence,
    cases: Vec<Trying>,
) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(count);
    run_as(&arguments, name, vec![(presence.clone(), cases)])
}

fn run_as(arguments: &Arguments, name: &str, groups: Vec<Group>) -> ExitCode {
    // A runner that lists asks twice; the second time for the ignored ones.
    if !arguments.list || arguments.ignored {
        say_ignored(name, &groups);
    }
    let trials = groups.into_iter().flat_map(|(presence, cases)| {
        cases.into_iter().map(move |case| trial(case, presence.clone()))
    });
    libtest_mimic::run(arguments, trials.collect()).exit_code()
}

/// Says which cases are ignored and why.
fn say_ignored(name: &str, groups: &[Group]) {
    for (presence, cases) in groups {
        match presence {
            Presence::Missing(reason) if groups.len() == 1 => {
                say(&format!("{name}: every case is ignored: {reason}"));
            }
            Presence::Missing(reason) => {
                say(&format!("{name}: {} cases are ignored: {reason}", cases.len()));
            }
            Presence::Required(_) => {}
            Presence::Here => {
                for case in cases {
                    if let Some(reason) = &case.lacks {
                        say(&format!("{name}: {} is ignored: {reason}", case.name));
                    }
                }
            }
        }
    }
}

fn trial(case: Trying, presence: Presence) -> Trial {
    let is_ignored = matches!(presence, Presence::Missing(_)) || case.lacks.is_some();
    let run = move || match case.lacks {
        Some(reason) => Err(Failed::from(reason)),
        None => outcome(presence, case.run).map_err(Failed::from),
    };
    Trial::test(case.name, run).with_ignored_flag(is_ignored)
}

/// What is not there never passes, also not when somebody asks for ignored cases to be run.
fn outcome(presence: Presence, run: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    match presence {
        Presence::Here => caught(run),
        Presence::Missing(reason) | Presence::Required(reason) => Err(reason),
    }
}

/// A panic has been printed with its place by the time it is caught; here it only counts.
pub(crate) fn caught<T>(run: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err("panicked".to_owned()))
}

#[allow(clippy::print_stderr)] // the harness speaks to whoever runs it
fn say(line: &str) {
    eprintln!("{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(missing: Option<&str>, required: &str) -> Presence {
        Presence::judge("postgres", missing.map(str::to_owned), required)
    }

    #[test]
    fn what_is_missing_is_ignored_and_fails_when_it_is_required() {
        assert_eq!(judge(None, "postgres"), Presence::Here);
        assert_eq!(judge(Some("no address"), ""), Presence::Missing("no address".to_owned()));
        assert!(matches!(judge(Some("no address"), "postgresql"), Presence::Missing(_)));
        assert!(matches!(judge(Some("no address"), "redis, postgres"), Presence::Required(_)));
    }

    #[test]
    fn whoever_requires_a_product_requires_all_its_forms() {
        let judge = |name: &str, required: &str| {
            Presence::judge(name, Some("no address".to_owned()), required)
        };
        for required in ["mqtt", "redis, mqtt", "mqtt-3.1.1"] {
            assert!(matches!(judge("mqtt-3.1.1", required), Presence::Required(_)), "{required}");
        }
        for required in ["", "mqt", "mqtt-3", "mqtt-3.1.1-bridge"] {
            assert!(matches!(judge("mqtt-3.1.1", required), Presence::Missing(_)), "{required}");
        }
        assert!(matches!(judge("mqtt", "mqtt-3.1.1"), Presence::Missing(_)));
    }

    #[test]
    fn a_case_of_a_missing_back_end_never_passes() {
        for presence in [judge(Some("no address"), ""), judge(Some("no address"), "postgres")] {
            let is_required = matches!(presence, Presence::Required(_));
            assert!(outcome(presence.clone(), || Ok(())).is_err());
            let case = Trying { name: "a".to_owned(), lacks: None, run: Box::new(|| Ok(())) };
            assert_eq!(trial(case, presence).has_ignored_flag(), !is_required);
        }
    }

    #[test]
    fn a_case_passes_fails_or_panics_by_itself() {
        assert_eq!(outcome(Presence::Here, || Ok(())), Ok(()));
        assert_eq!(outcome(Presence::Here, || Err("no".to_owned())), Err("no".to_owned()));
    }
}
