//! What only this storage does: its schema, its connections, its SQL. Without a server every test is
//! ignored; when the server is required, every test fails.

// Without the standard harness the lints do not see that this is test code.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod answers;
mod claims;
mod connecting;
mod connections;
mod days;
mod history;
mod lists;
mod migrations;
mod outbox;
mod place;
mod plans;
mod pooler;
mod sql;
#[cfg(feature = "sqlx")]
mod sqlx;
mod stored;
mod ties;
mod transactions;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

/// A test: its name and what it does.
type Case = (&'static str, fn() -> place::Ran);

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let missing = place::url().is_none();
    let required = std::env::var("PUNCTUAL_REQUIRE").unwrap_or_default();
    let is_required = required.split(',').any(|name| name.trim() == "postgres");
    let cases = [
        claims::CASES,
        connecting::CASES,
        connections::CASES,
        days::CASES,
        history::CASES,
        lists::CASES,
        migrations::CASES,
        outbox::CASES,
        plans::CASES,
        pooler::CASES,
        sql::CASES,
        #[cfg(feature = "sqlx")]
        sqlx::CASES,
        stored::CASES,
        ties::CASES,
        transactions::CASES,
    ];
    let trials = cases.into_iter().flatten().map(|(name, run)| {
        let run = *run;
        let act = move || {
            if missing {
                return Err(Failed::from("PUNCTUAL_POSTGRES_URL is not set"));
            }
            place::try_case(run);
            Ok(())
        };
        Trial::test(*name, act).with_ignored_flag(missing && !is_required)
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}
