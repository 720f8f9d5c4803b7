//! Tests of this transport alone: its names on the broker, counts, delays and connections. Without a broker
//! every test is ignored; when the broker is required, every test fails.

// Without the standard harness clippy does not recognize this as test code.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod connection_end;
mod envelopes;
mod errors;
mod fixture;
mod publishing;
mod receiving;
mod restart;
mod settling;
mod topology;

use std::process::ExitCode;

use punctual_conformance::backend_tests::Suite;
use xtask::servers::{Availability, Rabbitmq};

fn main() -> ExitCode {
    Suite::at("rabbitmq", fixture::VARIABLE)
        .cases(envelopes::CASES)
        .cases(errors::CASES)
        .cases(topology::CASES)
        .cases(publishing::CASES)
        .cases(receiving::CASES)
        .cases(settling::CASES)
        .cases(connection_end::CASES)
        .cases_unless(server_missing(), restart::CASES)
        .run()
}

/// Returns why a case cannot have a broker of its own, if it cannot.
fn server_missing() -> Option<String> {
    Availability::of(&Rabbitmq).reason().map(str::to_owned)
}
