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

use punctual_conformance::own::{Suite, missing};

fn main() -> ExitCode {
    Suite::here("servicebus")
        .cases(envelopes::CASES)
        .cases(faults::CASES)
        .cases(holding::CASES)
        .cases(settling::CASES)
        .cases_unless(missing(azure::VARIABLE), azure::CASES)
        .run()
}
