//! Short kill loop of keyed requests: a few kills on each storage, and a crash of PostgreSQL.
//!
//! Without PostgreSQL on this machine its case is *ignored*, never passed; see `xtask::servers::Availability`.

#![allow(clippy::print_stderr, reason = "a test prints its progress")]

use std::path::Path;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use punctual::{Clock, SystemClock};
use punctual_chaos::keyed::{KeyedPlan, run, table};
use xtask::servers::{Availability, Postgres};

/// Number of kills.
const KILLS: usize = 8;

fn main() -> ExitCode {
    let availability = Availability::of(&Postgres);
    if let Availability::Ignored(why) | Availability::Missing(why) = availability {
        eprintln!("PostgreSQL: {why}");
    }
    let sqlite = Trial::test("a_key_has_one_effect_under_kills_on_sqlite", || case(false));
    let postgres = Trial::test("a_key_has_one_effect_under_kills_and_crashes_on_postgres", {
        move || match availability {
            Availability::Missing(why) => Err(why.into()),
            _ => case(true),
        }
    });
    let postgres = postgres.with_ignored_flag(matches!(availability, Availability::Ignored(_)));
    libtest_mimic::run(&Arguments::from_args(), vec![sqlite, postgres]).exit_code()
}

fn case(postgres: bool) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let plan = KeyedPlan {
        program: Path::new(env!("CARGO_BIN_EXE_punctual-chaos")).to_owned(),
        postgres,
        kills: KILLS,
        kills_per_crash: 4,
        seed: u64::try_from(SystemClock.now().as_millisecond()).unwrap_or_default(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let report = runtime.block_on(run(&plan, folder.path()))?;
    eprintln!("seed {}\n{}", plan.seed, table::render(std::slice::from_ref(&report)));
    if report.check_result.is_good() {
        return Ok(());
    }
    Err(report.check_result.violations.join("\n").into())
}
