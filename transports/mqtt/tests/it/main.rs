//! What only this transport does: its sessions and their adoption, its connections, its envelopes. Without
//! a broker every test is ignored; when the broker is required, every test fails.

// Without the standard harness the lints do not see that this is test code.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod envelopes;
mod faults;
mod forms;
mod place;
mod restarting;
mod sessions;
mod settling;
mod stranger;

use std::process::ExitCode;

use punctual_conformance::own::Suite;
use xtask::servers::{Mqtt, Presence};

fn main() -> ExitCode {
    Suite::at("mqtt", place::VARIABLE)
        .cases(envelopes::CASES)
        .cases(faults::CASES)
        .cases(forms::CASES)
        .cases(sessions::CASES)
        .cases(settling::CASES)
        .cases_unless(no_server(), restarting::CASES)
        .run()
}

/// Why there can be no broker of a case's own, when there cannot.
fn no_server() -> Option<String> {
    Presence::of(&Mqtt).reason().map(str::to_owned)
}
