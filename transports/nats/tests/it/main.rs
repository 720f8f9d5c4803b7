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
mod relay;
mod restarting;
mod settling;
mod topology;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use xtask::servers::{Nats, Presence};

/// A test: its name and what it does.
type Case = (&'static str, fn() -> place::Ran);

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let missing = place::url().is_none();
    let required = std::env::var("PUNCTUAL_REQUIRE").unwrap_or_default();
    let is_required = required.split(',').any(|name| name.trim() == "nats");
    let cases = [
        envelopes::CASES,
        connecting::CASES,
        groups::CASES,
        losing::CASES,
        publishing::CASES,
        settling::CASES,
        topology::CASES,
    ];
    let trials = cases.into_iter().flatten().map(|(name, run)| {
        let reason = missing.then_some("PUNCTUAL_NATS_URL is not set");
        trial(name, *run, reason, is_required)
    });
    let own_server = restarting::CASES.iter().map(|(name, run)| {
        let reason = match Presence::of(&Nats) {
            Presence::Here => missing.then_some("PUNCTUAL_NATS_URL is not set"),
            Presence::Ignored(reason) | Presence::Missing(reason) => Some(reason),
        };
        trial(name, *run, reason, is_required)
    });
    libtest_mimic::run(&arguments, trials.chain(own_server).collect()).exit_code()
}

/// A test that never passes when there is a reason not to run it.
fn trial(
    name: &'static str,
    run: fn() -> place::Ran,
    reason: Option<&'static str>,
    is_required: bool,
) -> Trial {
    let act = move || {
        if let Some(reason) = reason {
            return Err(Failed::from(reason));
        }
        place::try_case(run);
        Ok(())
    };
    Trial::test(name, act).with_ignored_flag(reason.is_some() && !is_required)
}
