//! What only this transport does: its locks, its tokens, its dead letters. The double answers always; what
//! needs the real Service Bus is ignored without one, and fails when it is required.

// Without the standard harness the lints do not see that this is test code.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod azure;
// Each test uses its part of it.
#[allow(dead_code, unused_imports)]
#[path = "../double/mod.rs"]
mod double;
mod envelopes;
mod faults;
mod holding;
mod place;
mod settling;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

/// A test: its name and what it does.
type Case = (&'static str, fn() -> place::Ran);

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let here = [envelopes::CASES, faults::CASES, holding::CASES, settling::CASES];
    let here = here.into_iter().flatten().map(|(name, run)| {
        let run = *run;
        Trial::test(*name, move || {
            place::try_case(run);
            Ok(())
        })
    });
    let missing = azure::url().is_none();
    let required = std::env::var("PUNCTUAL_REQUIRE").unwrap_or_default();
    let is_required = required.split(',').any(|name| name.trim() == "servicebus");
    let there = azure::CASES.iter().map(|(name, run)| {
        let run = *run;
        let act = move || {
            if missing {
                return Err(Failed::from("PUNCTUAL_SERVICEBUS_URL is not set"));
            }
            place::try_case(run);
            Ok(())
        };
        Trial::test(*name, act).with_ignored_flag(missing && !is_required)
    });
    libtest_mimic::run(&arguments, here.chain(there).collect()).exit_code()
}
