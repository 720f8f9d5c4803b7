//! What only this transport does: its streams, its holds, its connections. Without a server every test is
//! ignored; when the server is required, every test fails.

// Without the standard harness the lints do not see that this is test code.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod envelopes;
mod faults;
mod holding;
mod place;
mod settling;
mod topology;

use std::process::ExitCode;

use punctual_conformance::own::Suite;

fn main() -> ExitCode {
    Suite::at("redis", place::VARIABLE)
        .cases(envelopes::CASES)
        .cases(faults::CASES)
        .cases(holding::CASES)
        .cases(settling::CASES)
        .cases(topology::CASES)
        .run()
}
