//! Tests specific to this transport: its streams and consumers, its connection, its errors. Without a server every
//! test is ignored; when the server is required, every test fails.

// Without the standard harness the lints do not recognize test code.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod connecting;
mod envelopes;
mod fixture;
mod groups;
mod outages;
mod publishing;
mod restart;
mod settling;
mod topology;

use std::process::ExitCode;

use punctual_conformance::backend_tests::{Suite, missing};
use xtask::servers::{Availability, Nats};

fn main() -> ExitCode {
    Suite::at("nats", fixture::VARIABLE)
        .cases(envelopes::CASES)
        .cases(connecting::CASES)
        .cases(groups::CASES)
        .cases(outages::CASES)
        .cases(publishing::CASES)
        .cases(settling::CASES)
        .cases(topology::CASES)
        .cases_unless(no_server(), restart::CASES)
        .run()
}

/// Returns why no private server can be started, if so.
fn no_server() -> Option<String> {
    let reason = Availability::of(&Nats).reason().map(str::to_owned);
    reason.or_else(|| missing(fixture::VARIABLE))
}
