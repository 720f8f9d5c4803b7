//! Suite of the server: enqueueing over HTTP beside a bare handler, lists of a million rows on both SQL storages,
//! the overview as a browser requests it, and the program itself: start time, size, memory, and cost of viewers.

mod client;
mod enqueue;
mod filled_storage;
mod lists;
mod overview;
mod postgres_rows;
mod program;
mod sqlite_rows;
mod start;
mod viewers;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use punctual_server::config::Sources;
use punctual_server::{Assembly, RunningServer};

use self::filled_storage::FilledStorage;
use crate::figure::{Figure, SkippedPart};

/// Default number of stored rows.
const ROWS: usize = 1_000_000;
/// Number of configured jobs.
const JOBS: usize = 1_000;
/// Names of the parts, for `--only`.
const PARTS: [&str; 5] = ["enqueue", "sqlite", "postgres", "start", "viewers"];

/// Measures every available part; also returns the parts that could not be measured.
pub(crate) fn run(
    only: Option<&str>,
    messages: Option<usize>,
) -> Result<(Vec<Figure>, Vec<SkippedPart>)> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let wanted = |part: &str| only.is_none_or(|only| only == part);
    let rows = messages.unwrap_or(ROWS);
    let (mut figures, mut skipped) = (Vec::new(), Vec::new());
    if wanted("enqueue") {
        figures.extend(runtime.block_on(enqueue::measure())?);
    }
    let binary = program::binary();
    if wanted("start") {
        match &binary {
            Ok(binary) => figures.extend(runtime.block_on(start::measure(binary))?),
            Err(why) => skipped.push(SkippedPart { name: "start", why: why.clone() }),
        }
    }
    if wanted("sqlite") || wanted("viewers") {
        let filled = runtime.block_on(FilledStorage::sqlite(rows))?;
        if wanted("sqlite") {
            figures.extend(runtime.block_on(lists::measure(&filled))?);
            figures.push(runtime.block_on(overview::measure(&filled))?);
        }
        if wanted("viewers") {
            match &binary {
                Ok(binary) => figures.extend(runtime.block_on(viewers::measure(binary, &filled))?),
                Err(why) => skipped.push(SkippedPart { name: "viewers", why: why.clone() }),
            }
        }
    }
    if wanted("postgres") {
        match std::env::var("PUNCTUAL_POSTGRES_URL") {
            Ok(url) => figures.extend(runtime.block_on(on_postgres(&url, rows))?),
            Err(_) => skipped.push(SkippedPart {
                name: "postgres",
                why: "PUNCTUAL_POSTGRES_URL names no server; `cargo xtask bench server` starts one unless it is left out"
                    .to_owned(),
            }),
        }
    }
    anyhow::ensure!(
        !figures.is_empty() || !skipped.is_empty(),
        "there is no part {only:?}; the parts are {}",
        PARTS.join(", ")
    );
    Ok((figures, skipped))
}

async fn on_postgres(url: &str, rows: usize) -> Result<Vec<Figure>> {
    let filled = FilledStorage::postgres(url, rows).await?;
    let mut figures = lists::measure(&filled).await?;
    figures.push(overview::measure(&filled).await?);
    postgres_rows::clear(url).await?;
    Ok(figures)
}

/// Writes a configuration with a storage address, roles, and a number of jobs that are not due for months.
fn write_config(folder: &Path, address: &str, roles: &str, jobs: usize) -> Result<PathBuf> {
    let mut text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\nroles = {roles}\n[storage]\naddress = {address:?}\n[log]\nlevel = \"error\"\n"
    );
    for number in 0..jobs {
        // In the other half of the year, so that none is due while it is measured.
        let month = (jiff::Zoned::now().month() + 5) % 12 + 1;
        let (minute, hour, day) = (number % 60, number / 60 % 24, 1 + number % 28);
        writeln!(text, "[jobs.{}]\ncron = \"{minute} {hour} {day} {month} *\"", job_name(number))?;
        writeln!(text, "publish = {{ topic = \"report\", body = {{ number = {number} }} }}")?;
    }
    let path = folder.join("punctual.toml");
    std::fs::write(&path, text).context("write a configuration")?;
    Ok(path)
}

fn job_name(number: usize) -> String {
    format!("job-{number:04}")
}

/// Starts a server with a configuration inside this process.
async fn start_server(config: &Path) -> Result<RunningServer> {
    let sources = Sources { file: Some(config.to_owned()), ..Sources::default() };
    let loaded = sources.load()?;
    Ok(Assembly { loaded, sources, demo: false }.start().await?)
}
