//! Tests specific to this transport: its sessions and their adoption, its connections, its envelopes. Without a
//! broker every test is ignored; when the broker is required, every test fails.

// Without the standard harness the lints do not recognize test code.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod envelopes;
mod faults;
mod fixture;
mod foreign_client;
mod interop;
mod restart;
mod sessions;
mod settling;

use std::process::ExitCode;

use punctual_conformance::backend_tests::Suite;
use xtask::servers::{Availability, Mqtt};

fn main() -> ExitCode {
    Suite::at("mqtt", fixture::VARIABLE)
        .cases(envelopes::CASES)
        .cases(faults::CASES)
        .cases(interop::CASES)
        .cases(sessions::CASES)
        .cases(settling::CASES)
        .cases_unless(no_server(), restart::CASES)
        .run()
}

/// Returns why no private broker can be started, if so.
fn no_server() -> Option<String> {
    Availability::of(&Mqtt).reason().map(str::to_owned)
}
