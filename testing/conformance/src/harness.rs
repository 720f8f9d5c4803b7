//! Test harness: runs cases by name as the standard harness does. Without the back-end's server every case is
//! ignored, never passed, and fails when the back-end is required.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

/// Environment variable with the names of required back-ends, separated by commas.
const REQUIRE: &str = "PUNCTUAL_REQUIRE";

/// A named case, ready to run.
pub(crate) struct TestCase {
    pub(crate) name: String,
    /// Reason why the case cannot run here and is ignored.
    pub(crate) skip_reason: Option<String>,
    pub(crate) run: Box<dyn FnOnce() -> Result<(), String> + Send>,
}

/// Whether the cases of a back-end can run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Availability {
    Available,
    /// Missing for this reason; cases are ignored.
    Missing(String),
    /// Missing for this reason although it is required; cases fail.
    Required(String),
}

impl Availability {
    /// Decides from the reason why a back-end is missing and from [`REQUIRE`].
    pub(crate) fn of(name: &str, missing: Option<String>) -> Self {
        Self::decide(name, missing, &std::env::var(REQUIRE).unwrap_or_default())
    }

    fn decide(name: &str, missing: Option<String>, required: &str) -> Self {
        // A variant's name begins with that of the product: "mqtt-3.1.1" is a variant of "mqtt".
        let is_named = |one: &str| {
            let rest = name.strip_prefix(one).filter(|_| !one.is_empty());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        let is_required = required.split(',').any(|one| is_named(one.trim()));
        match missing {
            None => Self::Available,
            Some(reason) if is_required => {
                Self::Required(format!("{reason}, and {REQUIRE} names {name}"))
            }
            Some(reason) => Self::Missing(reason),
        }
    }
}

/// Cases with the same availability.
pub(crate) type CaseGroup = (Availability, Vec<TestCase>);

/// Runs the cases that the command line selects.
pub(crate) fn run(name: &str, availability: &Availability, cases: Vec<TestCase>) -> ExitCode {
    run_as(&Arguments::from_args(), name, vec![(availability.clone(), cases)])
}

/// Runs groups of cases with different availability.
pub(crate) fn run_groups(name: &str, groups: Vec<CaseGroup>) -> ExitCode {
    run_as(&Arguments::from_args(), name, groups)
}

/// Runs `count` cases in parallel unless the command line sets the number of threads.
pub(crate) fn run_in_parallel(
    count: usize,
    name: &str,
    availability: &Availability,
    cases: Vec<TestCase>,
) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(count);
    run_as(&arguments, name, vec![(availability.clone(), cases)])
}

fn run_as(arguments: &Arguments, name: &str, groups: Vec<CaseGroup>) -> ExitCode {
    // A test runner lists cases twice; the second time the ignored ones.
    if !arguments.list || arguments.ignored {
        print_ignored(name, &groups);
    }
    let trials = groups.into_iter().flat_map(|(availability, cases)| {
        cases.into_iter().map(move |case| to_trial(case, availability.clone()))
    });
    libtest_mimic::run(arguments, trials.collect()).exit_code()
}

/// Prints which cases are ignored and why.
fn print_ignored(name: &str, groups: &[CaseGroup]) {
    for (availability, cases) in groups {
        match availability {
            Availability::Missing(reason) if groups.len() == 1 => {
                print(&format!("{name}: every case is ignored: {reason}"));
            }
            Availability::Missing(reason) => {
                print(&format!("{name}: {} cases are ignored: {reason}", cases.len()));
            }
            Availability::Required(_) => {}
            Availability::Available => {
                for case in cases {
                    if let Some(reason) = &case.skip_reason {
                        print(&format!("{name}: {} is ignored: {reason}", case.name));
                    }
                }
            }
        }
    }
}

fn to_trial(case: TestCase, availability: Availability) -> Trial {
    let is_ignored = matches!(availability, Availability::Missing(_)) || case.skip_reason.is_some();
    let run = move || match case.skip_reason {
        Some(reason) => Err(Failed::from(reason)),
        None => run_available(availability, case.run).map_err(Failed::from),
    };
    Trial::test(case.name, run).with_ignored_flag(is_ignored)
}

/// Runs a case. Without the back-end it fails, also when the command line selects ignored cases.
fn run_available(
    availability: Availability,
    run: impl FnOnce() -> Result<(), String>,
) -> Result<(), String> {
    match availability {
        Availability::Available => catch_panic(run),
        Availability::Missing(reason) | Availability::Required(reason) => Err(reason),
    }
}

/// Turns a panic into an error; the panic hook has already printed its message.
pub(crate) fn catch_panic<T>(run: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err("panicked".to_owned()))
}

#[allow(clippy::print_stderr)] // the harness reports to the terminal
fn print(line: &str) {
    eprintln!("{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(missing: Option<&str>, required: &str) -> Availability {
        Availability::decide("postgres", missing.map(str::to_owned), required)
    }

    #[test]
    fn a_missing_back_end_is_ignored_and_fails_when_it_is_required() {
        assert_eq!(decide(None, "postgres"), Availability::Available);
        assert_eq!(decide(Some("no address"), ""), Availability::Missing("no address".to_owned()));
        assert!(matches!(decide(Some("no address"), "postgresql"), Availability::Missing(_)));
        assert!(matches!(decide(Some("no address"), "redis, postgres"), Availability::Required(_)));
    }

    #[test]
    fn requiring_a_product_requires_all_its_variants() {
        let decide = |name: &str, required: &str| {
            Availability::decide(name, Some("no address".to_owned()), required)
        };
        for required in ["mqtt", "redis, mqtt", "mqtt-3.1.1"] {
            assert!(
                matches!(decide("mqtt-3.1.1", required), Availability::Required(_)),
                "{required}"
            );
        }
        for required in ["", "mqt", "mqtt-3", "mqtt-3.1.1-bridge"] {
            assert!(
                matches!(decide("mqtt-3.1.1", required), Availability::Missing(_)),
                "{required}"
            );
        }
        assert!(matches!(decide("mqtt", "mqtt-3.1.1"), Availability::Missing(_)));
    }

    #[test]
    fn a_case_of_a_missing_back_end_never_passes() {
        for availability in [decide(Some("no address"), ""), decide(Some("no address"), "postgres")]
        {
            let is_required = matches!(availability, Availability::Required(_));
            assert!(run_available(availability.clone(), || Ok(())).is_err());
            let case =
                TestCase { name: "a".to_owned(), skip_reason: None, run: Box::new(|| Ok(())) };
            assert_eq!(to_trial(case, availability).has_ignored_flag(), !is_required);
        }
    }

    #[test]
    fn an_available_case_passes_or_fails() {
        assert_eq!(run_available(Availability::Available, || Ok(())), Ok(()));
        assert_eq!(
            run_available(Availability::Available, || Err("no".to_owned())),
            Err("no".to_owned())
        );
    }
}
