//! What only this transport does: its streams, its holds, its connections. Without a server every test is
//! ignored; when the server is required, every test fails.

// Without the standard harness the lints do not see that this is test code.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod envelopes;
mod faults;
mod holding;
mod place;
mod proxy;
mod settling;
mod topology;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

/// A test: its name and what it does.
type Case = (&'static str, fn() -> place::Ran);

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let missing = place::url().is_none();
    let required = std::env::var("PUNCTUAL_REQUIRE").unwrap_or_default();
    let is_required = required.split(',').any(|name| name.trim() == "redis");
    let cases = [envelopes::CASES, faults::CASES, holding::CASES, settling::CASES, topology::CASES];
    let trials = cases.into_iter().flatten().map(|(name, run)| {
        let run = *run;
        let act = move || {
            if missing {
                return Err(Failed::from("PUNCTUAL_REDIS_URL is not set"));
            }
            place::try_case(run);
            Ok(())
        };
        Trial::test(*name, act).with_ignored_flag(missing && !is_required)
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}
