//! Tests of this transport alone: its streams, visibility timeouts and connections. Without a server every test
//! is ignored; when the server is required, every test fails.

// Without the standard harness clippy does not recognize this as test code.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod envelopes;
mod errors;
mod fixture;
mod in_flight;
mod settling;
mod topology;

use std::process::ExitCode;

use punctual_conformance::backend_tests::Suite;

fn main() -> ExitCode {
    Suite::at("redis", fixture::VARIABLE)
        .cases(envelopes::CASES)
        .cases(errors::CASES)
        .cases(in_flight::CASES)
        .cases(settling::CASES)
        .cases(topology::CASES)
        .run()
}
