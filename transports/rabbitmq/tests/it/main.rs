//! What only this transport does: its names on the broker, its counts and delays, its connections. Without
//! a broker every test is ignored; when the broker is required, every test fails.

// Without the standard harness the lints do not see that this is test code.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod connecting;
mod declaring;
mod envelopes;
mod place;
mod publishing;
mod receiving;
mod restarting;
mod settling;
mod stalling;

use std::process::ExitCode;

use punctual_conformance::own::Suite;
use xtask::servers::{Presence, Rabbitmq};

fn main() -> ExitCode {
    Suite::at("rabbitmq", place::VARIABLE)
        .cases(envelopes::CASES)
        .cases(connecting::CASES)
        .cases(declaring::CASES)
        .cases(publishing::CASES)
        .cases(receiving::CASES)
        .cases(settling::CASES)
        .cases(stalling::CASES)
        .cases_unless(no_server(), restarting::CASES)
        .run()
}

/// Why there can be no broker of a case's own, when there cannot.
fn no_server() -> Option<String> {
    Presence::of(&Rabbitmq).reason().map(str::to_owned)
}
