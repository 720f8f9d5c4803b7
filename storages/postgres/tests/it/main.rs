//! Tests of this storage only: its schema, its connections, its SQL. Without a server every test is
//! ignored; when the server is required, every test fails.

// Without the standard harness the lints do not detect that this is test code.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod claims;
mod connection_errors;
mod connections;
mod deduplication;
mod enqueue;
mod history;
mod history_partitions;
mod migrations;
mod outbox;
mod page_bounds;
mod pooler;
mod query_plans;
mod relations;
mod repeats;
mod schema;
mod sql_interface;
#[cfg(feature = "sqlx")]
mod sqlx;
mod transactions;

use std::process::ExitCode;

use punctual_conformance::backend_tests::Suite;

fn main() -> ExitCode {
    let suite = Suite::at("postgres", schema::VARIABLE)
        .cases(claims::CASES)
        .cases(connection_errors::CASES)
        .cases(connections::CASES)
        .cases(history_partitions::CASES)
        .cases(history::CASES)
        .cases(page_bounds::CASES)
        .cases(migrations::CASES)
        .cases(outbox::CASES)
        .cases(query_plans::CASES)
        .cases(pooler::CASES)
        .cases(sql_interface::CASES)
        .cases(enqueue::CASES)
        .cases(relations::CASES)
        .cases(repeats::CASES)
        .cases(transactions::CASES);
    #[cfg(feature = "sqlx")]
    let suite = suite.cases(sqlx::CASES);
    suite.run()
}
