//! Helpers for tests of a single back-end: listing and running cases, message helpers, and a proxy that cuts
//! connections.
//!
//! A crate's `tests/it/main.rs` does not use the standard harness, so that cases are ignored without a server
//! and fail when the server is required:
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! mod faults {
//!     punctual_conformance::cases![a_server_that_is_not_there_is_named];
//!
//!     async fn a_server_that_is_not_there_is_named() {}
//! }
//!
//! fn main() -> ExitCode {
//!     punctual_conformance::backend_tests::Suite::at("redis", "PUNCTUAL_REDIS_URL").cases(faults::CASES).run()
//! }
//! ```
//!
//! The crate itself names its queues or tables, reads them past the transport, and removes them.

pub mod envelopes;
pub mod messaging;
mod proxy;
pub mod views;
mod wrong_clock;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use punctual::{Clock as _, SystemClock};

pub use self::proxy::{Proxy, Slowness};
pub use self::wrong_clock::WrongClock;

use crate::case::{runtime, with_timeout};
use crate::harness::{self, Availability, CaseGroup, TestCase};

/// Largest duration of a case in real time, far more than any case needs.
const CASE_TIMEOUT: Duration = Duration::from_secs(280);

/// Future of a started case.
pub type CaseFuture = Pin<Box<dyn Future<Output = ()>>>;

/// A test: its name and what it does.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Path of the function: crate, module and function.
    pub name: &'static str,
    /// Starts the case.
    pub run: fn() -> CaseFuture,
}

/// Lists the tests of a module as its `CASES`.
#[macro_export]
macro_rules! cases {
    ($($name:ident),+ $(,)?) => {
        pub(crate) const CASES: &[$crate::backend_tests::Case] = &[$(
            $crate::backend_tests::Case {
                name: concat!(module_path!(), "::", stringify!($name)),
                run: || Box::pin($name()),
            }
        ),+];
    };
}

/// The tests of one back-end.
#[must_use = "no case runs before `run`"]
pub struct Suite {
    name: &'static str,
    missing: Option<String>,
    groups: Vec<CaseGroup>,
}

impl Suite {
    /// Creates the suite of a back-end whose server address is in an environment variable.
    pub fn at(name: &'static str, variable: &str) -> Self {
        Self { name, missing: missing(variable), groups: Vec::new() }
    }

    /// Creates the suite of a back-end that needs no server.
    pub fn local(name: &'static str) -> Self {
        Self { name, missing: None, groups: Vec::new() }
    }

    /// Adds cases that need only the back-end.
    pub fn cases(self, cases: &[Case]) -> Self {
        let missing = self.missing.clone();
        self.cases_unless(missing, cases)
    }

    /// Adds cases with another requirement. With a reason why it is missing they are ignored, or fail when the
    /// back-end is required.
    pub fn cases_unless(mut self, reason: Option<String>, cases: &[Case]) -> Self {
        let availability = Availability::of(self.name, reason);
        let cases = cases.iter().map(|case| {
            let run = case.run;
            TestCase {
                name: case.name.to_owned(),
                skip_reason: None,
                run: Box::new(move || run_case(run)),
            }
        });
        match self.groups.last_mut() {
            Some((known, group)) if *known == availability => group.extend(cases),
            _ => self.groups.push((availability, cases.collect())),
        }
        self
    }

    /// Runs the cases that the command line selects; the only call of `main`.
    pub fn run(self) -> ExitCode {
        harness::run_groups(self.name, self.groups)
    }
}

/// Returns the address in an environment variable; panics when it is not set. Cases that need one are ignored
/// without it.
pub fn address(variable: &str) -> String {
    variable_value(variable).unwrap_or_else(|| panic!("{variable} is not set"))
}

/// Returns a name of letters and digits that no other run on the same server has. Process ids alone are used again, and
/// a server that is kept for many runs still has the queues of the earlier ones.
pub fn run_name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let milliseconds = SystemClock.now().as_millisecond().unsigned_abs();
        format!("{}x{:x}", std::process::id(), milliseconds & 0xffff_ffff)
    })
}

/// Returns a name that no other case of any run on the same server has: that of the run, a dash and a number.
pub fn unique_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{}-{}", run_name(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Returns the reason why the server is missing when its environment variable is not set.
pub fn missing(variable: &str) -> Option<String> {
    variable_value(variable).is_none().then(|| format!("{variable} is not set"))
}

fn variable_value(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|address| !address.is_empty())
}

fn run_case(run: fn() -> CaseFuture) -> Result<(), String> {
    let runtime = runtime()?;
    let ran =
        catch_unwind(AssertUnwindSafe(|| runtime.block_on(with_timeout(CASE_TIMEOUT, run()))));
    // Tasks that the case left running must not delay its end.
    runtime.shutdown_background();
    match ran {
        Err(panic) => resume_unwind(panic),
        Ok(None) => Err(format!("timed out after {CASE_TIMEOUT:?}")),
        Ok(Some(())) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    cases![passes, panics];

    async fn passes() {}

    async fn panics() {
        panic!("on purpose");
    }

    #[test]
    fn a_case_has_the_name_of_its_function_and_its_outcome() {
        assert!(CASES[0].name.ends_with("backend_tests::tests::passes"), "{}", CASES[0].name);
        assert_eq!(run_case(CASES[0].run), Ok(()));
        assert!(harness::catch_panic(|| run_case(CASES[1].run)).is_err());
    }

    #[test]
    fn cases_are_grouped_by_the_reason_why_they_are_missing() {
        let suite = Suite::local("example").cases(CASES).cases(CASES);
        let suite = suite.cases_unless(Some("none is installed".to_owned()), CASES);
        let suite = suite.cases_unless(None, CASES);
        let counts: Vec<_> =
            suite.groups.iter().map(|(known, cases)| (known, cases.len())).collect();
        let missing = Availability::Missing("none is installed".to_owned());
        assert_eq!(
            counts,
            [(&Availability::Available, 4), (&missing, 2), (&Availability::Available, 2)]
        );
    }
}
