//! Faults of database and clock: a process during an outage of its database, and with a wrong clock. Each case has a
//! private PostgreSQL that it may kill.
//!
//! Without PostgreSQL on this machine a case is *ignored*, never passed; see `xtask::servers::Availability`.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test panics when its setup fails, and prints its progress"
)]

mod faults {
    pub(crate) mod clocks;
    pub(crate) mod node;
    pub(crate) mod outages;
}

use std::future::Future;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use xtask::servers::{Availability, Postgres};

use faults::{clocks, outages};

fn main() -> ExitCode {
    let availability = Availability::of(&Postgres);
    if let Availability::Ignored(why) | Availability::Missing(why) = availability {
        eprintln!("PostgreSQL: {why}");
    }
    let trials = vec![
        trial(availability, "work_begins_when_the_database_comes_up", || {
            outages::work_begins_when_the_database_comes_up()
        }),
        trial(availability, "a_killed_database_loses_nothing", || {
            outages::a_killed_database_loses_nothing()
        }),
        trial(availability, "a_clock_an_hour_ahead_changes_nothing", || {
            clocks::a_wrong_clock_changes_nothing(3_600)
        }),
        trial(availability, "a_clock_an_hour_behind_changes_nothing", || {
            clocks::a_wrong_clock_changes_nothing(-3_600)
        }),
        trial(availability, "a_slow_network_and_a_clock_ahead_start_nothing_early", || {
            clocks::a_slow_network_starts_nothing_early(3_600)
        }),
        trial(availability, "a_slow_network_and_a_clock_behind_start_nothing_early", || {
            clocks::a_slow_network_starts_nothing_early(-3_600)
        }),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trial<Fut>(availability: Availability, name: &str, case: fn() -> Fut) -> Trial
where
    Fut: Future<Output = Result<(), Failed>> + 'static,
{
    let run = move || match availability {
        Availability::Missing(why) => Err(why.into()),
        _ => tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(case()),
    };
    Trial::test(name, run).with_ignored_flag(matches!(availability, Availability::Ignored(_)))
}
