//! Tests of this transport alone: its queues, visibility timeouts, counts and connections. Without an endpoint
//! every test is ignored; when it is required, every test fails.

// Without the standard harness clippy does not recognize this as test code.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod envelopes;
mod errors;
mod fixture;
mod in_flight;
mod raw;
mod settling;
mod topology;

use std::process::ExitCode;

use punctual_conformance::backend_tests::Suite;

fn main() -> ExitCode {
    Suite::at("sqs", fixture::VARIABLE)
        .cases(envelopes::CASES)
        .cases(errors::CASES)
        .cases(in_flight::CASES)
        .cases(settling::CASES)
        .cases(topology::CASES)
        .run()
}
