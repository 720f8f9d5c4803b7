//! What only this transport does: its queues, its holds, its count, its connections. Without an endpoint
//! every test is ignored; when it is required, every test fails.

// Without the standard harness the lints do not see that this is test code.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod envelopes;
mod faults;
mod holding;
mod place;
mod raw;
mod settling;
mod topology;

use std::process::ExitCode;

use punctual_conformance::own::Suite;

fn main() -> ExitCode {
    Suite::at("sqs", place::VARIABLE)
        .cases(envelopes::CASES)
        .cases(faults::CASES)
        .cases(holding::CASES)
        .cases(settling::CASES)
        .cases(topology::CASES)
        .run()
}
