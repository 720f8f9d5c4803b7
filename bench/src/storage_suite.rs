//! The durable storages, each beside a raw loop over the same rows with the same driver in the same
//! run: rates depend on the machine, ratios much less.

mod drain;
mod postgres;
mod postgres_raw;
mod sqlite;
mod sqlite_raw;

use anyhow::Result;

use crate::figure::{Figure, percentile};

/// How often each thing is measured; raw and ours take turns.
const REPETITIONS: usize = 3;
/// Rows in one raw statement, and slots of our queue: as many as one claim may bring.
const BATCH: usize = 1_000;
/// What a message carries: a hundred bytes of JSON.
const BODY: [u8; 100] = {
    let mut text = [b'x'; 100];
    text[0] = b'"';
    text[99] = b'"';
    text
};

/// Measures every storage that is there.
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

/// Rates of one thing, as they were measured.
#[derive(Default)]
struct Rates(Vec<f64>);

impl Rates {
    fn push(&mut self, rate: f64) {
        self.0.push(rate);
        self.0.sort_by(f64::total_cmp);
    }

    fn median(&self) -> f64 {
        percentile(&self.0, 50)
    }

    fn figure(&self, name: &str, how: &str) -> Figure {
        let how = format!(
            "{how}; median of {} runs from {:.0} to {:.0}",
            self.0.len(),
            percentile(&self.0, 0),
            percentile(&self.0, 100)
        );
        let (name, unit, asked) = (name.to_owned(), "messages/s", "");
        Figure { name, value: self.median(), unit, asked, how }
    }
}

/// How one rate compares with another, in percent.
fn ratio(name: &str, ours: &Rates, raw: &Rates, asked: &'static str) -> Figure {
    Figure {
        name: name.to_owned(),
        value: 100.0 * ours.median() / raw.median(),
        unit: "%",
        asked,
        how: format!("{:.0} of {:.0} messages/s, medians", ours.median(), raw.median()),
    }
}

/// Exact: far below the 52 bits of a mantissa.
#[allow(clippy::cast_precision_loss)]
fn float(count: usize) -> f64 {
    count as f64
}
