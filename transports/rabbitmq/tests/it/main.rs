//! What only this transport does: its names on the broker, its counts and delays, its connections. Without
//! a broker every test is ignored; when the broker is required, every test fails.

// Without the standard harness the lints do not see that this is test code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

mod connecting;
mod declaring;
mod envelopes;
mod place;
mod proxy;
mod publishing;
mod receiving;
mod restarting;
mod settling;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use xtask::servers::{Presence, Rabbitmq};

/// A test: its name and what it does.
type Case = (&'static str, fn() -> place::Ran);

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let missing = place::url().is_none();
    let required = std::env::var("PUNCTUAL_REQUIRE").unwrap_or_default();
    let is_required = required.split(',').any(|name| name.trim() == "rabbitmq");
    let cases = [
        envelopes::CASES,
        connecting::CASES,
        declaring::CASES,
        publishing::CASES,
        receiving::CASES,
        settling::CASES,
    ];
    let trials = cases.into_iter().flatten().map(|(name, run)| {
        let run = *run;
        let act = move || {
            if missing {
                return Err(Failed::from("PUNCTUAL_RABBITMQ_URL is not set"));
            }
            place::try_case(run);
            Ok(())
        };
        Trial::test(*name, act).with_ignored_flag(missing && !is_required)
    });
    let trials = trials.chain(restarting::CASES.iter().map(private));
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// A case with a broker of its own, which has to be installed here.
fn private((name, run): &Case) -> Trial {
    let (run, presence) = (*run, Presence::of(&Rabbitmq));
    if let Presence::Ignored(why) = presence {
        eprintln!("rabbitmq: {name} is ignored: {why}");
    }
    let act = move || {
        if let Presence::Missing(why) = presence {
            return Err(Failed::from(why));
        }
        place::try_case(run);
        Ok(())
    };
    Trial::test(*name, act).with_ignored_flag(matches!(presence, Presence::Ignored(_)))
}
