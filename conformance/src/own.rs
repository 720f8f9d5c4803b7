//! For the tests that only one back-end has: the same way to list and run them, the same words, and a
//! connection that can be cut.
//!
//! A crate's `tests/it/main.rs` is without the standard harness, so that a server that is not there
//! shows as ignored and one that is required as failed:
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
//!     punctual_conformance::own::Suite::at("redis", "PUNCTUAL_REDIS_URL").cases(faults::CASES).run()
//! }
//! ```
//!
//! What is left for the crate is its place: how its things are named on the broker, how they are looked
//! at past the transport, and how they are taken away.

pub mod envelopes;
pub mod letters;
mod proxy;
pub mod views;
mod wrong_clock;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::Duration;

use punctual::{Clock as _, SystemClock};

pub use self::proxy::{Proxy, Slowness};
pub use self::wrong_clock::WrongClock;

use crate::case::{bounded, runtime};
use crate::harness::{self, Group, Presence, Trying};

/// The most a case may take in real time. It is far more than any needs; what it bounds is waiting
/// for ever.
const CASE_TIMEOUT: Duration = Duration::from_secs(280);

/// A case that has begun.
pub type Ran = Pin<Box<dyn Future<Output = ()>>>;

/// A test: its name and what it does.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Crate, module and function.
    pub name: &'static str,
    /// Begins it.
    pub run: fn() -> Ran,
}

/// Lists the tests of a module as its `CASES`.
#[macro_export]
macro_rules! cases {
    ($($name:ident),+ $(,)?) => {
        pub(crate) const CASES: &[$crate::own::Case] = &[$(
            $crate::own::Case {
                name: concat!(module_path!(), "::", stringify!($name)),
                run: || Box::pin($name()),
            }
        ),+];
    };
}

/// The tests of one back-end.
#[must_use = "nothing is tried before `run`"]
pub struct Suite {
    name: &'static str,
    missing: Option<String>,
    groups: Vec<Group>,
}

impl Suite {
    /// Of a back-end whose server's address is in a variable.
    pub fn at(name: &'static str, variable: &str) -> Self {
        Self { name, missing: missing(variable), groups: Vec::new() }
    }

    /// Of a back-end that is always here.
    pub fn here(name: &'static str) -> Self {
        Self { name, missing: None, groups: Vec::new() }
    }

    /// Adds cases that need the back-end and nothing else.
    pub fn cases(self, cases: &[Case]) -> Self {
        let missing = self.missing.clone();
        self.cases_unless(missing, cases)
    }

    /// Adds cases that need something of their own. With a reason why it is not there they are ignored,
    /// or fail when the back-end is required.
    pub fn cases_unless(mut self, reason: Option<String>, cases: &[Case]) -> Self {
        let presence = Presence::of(self.name, reason);
        let cases = cases.iter().map(|case| {
            let run = case.run;
            Trying { name: case.name.to_owned(), lacks: None, run: Box::new(move || try_case(run)) }
        });
        match self.groups.last_mut() {
            Some((known, group)) if *known == presence => group.extend(cases),
            _ => self.groups.push((presence, cases.collect())),
        }
        self
    }

    /// Runs what the command line asks for: the whole of a `main`.
    pub fn run(self) -> ExitCode {
        harness::run_groups(self.name, self.groups)
    }
}

/// The address in a variable, which must be there; cases that need one are not run without.
pub fn address(variable: &str) -> String {
    found(variable).unwrap_or_else(|| panic!("{variable} is not set"))
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

/// Why there is no server, when its variable says nothing.
pub fn missing(variable: &str) -> Option<String> {
    found(variable).is_none().then(|| format!("{variable} is not set"))
}

fn found(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|address| !address.is_empty())
}

fn try_case(run: fn() -> Ran) -> Result<(), String> {
    let runtime = runtime()?;
    let ran = catch_unwind(AssertUnwindSafe(|| runtime.block_on(bounded(CASE_TIMEOUT, run()))));
    // What a case left running must not keep it.
    runtime.shutdown_background();
    match ran {
        Err(panic) => resume_unwind(panic),
        Ok(None) => Err(format!("not done within {CASE_TIMEOUT:?}")),
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
        assert!(CASES[0].name.ends_with("own::tests::passes"), "{}", CASES[0].name);
        assert_eq!(try_case(CASES[0].run), Ok(()));
        assert!(harness::caught(|| try_case(CASES[1].run)).is_err());
    }

    #[test]
    fn cases_stand_with_those_that_are_missing_for_the_same_reason() {
        let suite = Suite::here("nobody").cases(CASES).cases(CASES);
        let suite = suite.cases_unless(Some("none is installed".to_owned()), CASES);
        let suite = suite.cases_unless(None, CASES);
        let counts: Vec<_> =
            suite.groups.iter().map(|(known, cases)| (known, cases.len())).collect();
        let missing = Presence::Missing("none is installed".to_owned());
        assert_eq!(counts, [(&Presence::Here, 4), (&missing, 2), (&Presence::Here, 2)]);
    }
}
