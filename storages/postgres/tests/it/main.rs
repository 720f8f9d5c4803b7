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

use punctual_conformance::own::Suite;

fn main() -> ExitCode {
    let suite = Suite::at("postgres", place::VARIABLE)
        .cases(claims::CASES)
        .cases(connecting::CASES)
        .cases(connections::CASES)
        .cases(days::CASES)
        .cases(history::CASES)
        .cases(lists::CASES)
        .cases(migrations::CASES)
        .cases(outbox::CASES)
        .cases(plans::CASES)
        .cases(pooler::CASES)
        .cases(sql::CASES)
        .cases(stored::CASES)
        .cases(ties::CASES)
        .cases(transactions::CASES);
    #[cfg(feature = "sqlx")]
    let suite = suite.cases(sqlx::CASES);
    suite.run()
}
