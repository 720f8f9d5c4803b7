//! Suite of the durable storages, each compared with a raw loop over the same rows with the same driver in the
//! same run: rates depend on the machine, ratios much less.

mod drain;
mod postgres;
mod postgres_raw;
mod sqlite;
mod sqlite_raw;

use anyhow::Result;

use crate::figure::Figure;
use crate::rates::{BODY, REPETITIONS, Rates, float, ratio};

/// Rows in one raw statement, and slots of our queue: the limit of one claim.
const BATCH: usize = 1_000;

/// Measures every available storage.
pub(crate) fn run(only: Option<&str>, messages: usize) -> Result<Vec<Figure>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut figures = Vec::new();
    if only.is_none_or(|only| only == "sqlite") {
        figures.extend(runtime.block_on(sqlite::measure(messages))?);
    }
    let idle_only = only == Some("idle");
    if idle_only || only.is_none_or(|only| only == "postgres") {
        match std::env::var("PUNCTUAL_POSTGRES_URL") {
            Ok(url) => {
                let measuring = postgres::measure(&url, messages, idle_only);
                figures.extend(runtime.block_on(measuring)?);
            }
            Err(_) => println!(
                "PostgreSQL is NOT measured: PUNCTUAL_POSTGRES_URL names no server; `cargo xtask bench storage` starts one"
            ),
        }
    }
    anyhow::ensure!(
        !figures.is_empty(),
        "nothing was measured; the parts are sqlite, postgres and idle"
    );
    Ok(figures)
}
