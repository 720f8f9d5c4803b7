//! Tests of this transport alone: its locks, tokens and dead letters. The double is always available; tests with
//! the real Service Bus are ignored without one, and fail when it is required.

// Without the standard harness clippy does not recognize this as test code.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod azure;
// Each test uses a part of it.
#[allow(dead_code, unused_imports)]
#[path = "../double/mod.rs"]
mod double;
mod envelopes;
mod errors;
mod fixture;
mod in_flight;
mod settling;

use std::process::ExitCode;

use punctual_conformance::backend_tests::{Suite, missing};

fn main() -> ExitCode {
    Suite::local("servicebus")
        .cases(envelopes::CASES)
        .cases(errors::CASES)
        .cases(in_flight::CASES)
        .cases(settling::CASES)
        .cases_unless(missing(azure::VARIABLE), azure::CASES)
        .run()
}
