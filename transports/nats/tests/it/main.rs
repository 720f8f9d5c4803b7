//! What only this transport does: its streams and consumers, its connection, its words when something is
//! wrong. Without a server every test is ignored; when the server is required, every test fails.

// Without the standard harness the lints do not see that this is test code.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod connecting;
mod envelopes;
mod groups;
mod losing;
mod place;
mod publishing;
mod restarting;
mod settling;
mod topology;

use std::process::ExitCode;

use punctual_conformance::own::{Suite, missing};
use xtask::servers::{Nats, Presence};

fn main() -> ExitCode {
    Suite::at("nats", place::VARIABLE)
        .cases(envelopes::CASES)
        .cases(connecting::CASES)
        .cases(groups::CASES)
        .cases(losing::CASES)
        .cases(publishing::CASES)
        .cases(settling::CASES)
        .cases(topology::CASES)
        .cases_unless(no_server(), restarting::CASES)
        .run()
}

/// Why there can be no server of a case's own, when there cannot.
fn no_server() -> Option<String> {
    let reason = Presence::of(&Nats).reason().map(str::to_owned);
    reason.or_else(|| missing(place::VARIABLE))
}
