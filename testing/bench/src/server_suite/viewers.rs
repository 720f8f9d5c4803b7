//! Viewers: processor use of the program with five listeners to its events, and with five open overview pages,
//! each compared with the same program without viewers. All rows are stored.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::client::Client;
use super::filled_storage::FilledStorage;
use super::overview::{page_requests, poll_requests};
use super::program::Program;
use super::write_config;
use crate::figure::Figure;

/// Number of listeners, and of open pages.
const VIEWERS: usize = 5;
/// Duration of each measurement, and of the wait before it.
const MEASURE_TIME: Duration = Duration::from_secs(20);
const SETTLE_TIME: Duration = Duration::from_secs(3);
/// Polling interval of the page.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

pub(super) async fn measure(binary: &Path, filled: &FilledStorage) -> Result<Vec<Figure>> {
    let folder = tempfile::tempdir()?;
    let file = filled.file.as_ref().context("viewers are measured on SQLite only")?;
    let address = format!("sqlite:{}", file.display());
    let config = write_config(folder.path(), &address, "[\"api\"]", 0)?;
    let config = config.to_string_lossy();
    let program = Program::start(binary, folder.path(), &["--config", &config]).await?;
    let alone = cpu_percent(&program).await?;
    let mut listeners = Vec::new();
    for _ in 0..VIEWERS {
        let client = Client::connect(program.address).await?;
        listeners.push(tokio::spawn(client.listen("/api/v1/events")));
    }
    let with_listeners = cpu_percent(&program).await?;
    let mut pages = Vec::new();
    for _ in 0..VIEWERS {
        pages.push(tokio::spawn(poll_page(Client::connect(program.address).await?)));
    }
    let with_pages = cpu_percent(&program).await?;
    let ended = listeners.iter().chain(&pages).any(tokio::task::JoinHandle::is_finished);
    listeners.iter().chain(&pages).for_each(tokio::task::JoinHandle::abort);
    anyhow::ensure!(!ended, "a viewer lost its connection");
    let seconds = MEASURE_TIME.as_secs();
    let figure = |name: &str, value: f64, target, with: &str| Figure {
        name: format!("viewers: {name}"),
        value,
        unit: "% of a core",
        target,
        how: format!(
            "{with}, over {seconds} s; {} rows on SQLite; {alone:.2} % without viewers",
            filled.rows.count
        ),
    };
    Ok(vec![
        figure(
            "five listen to an update every second",
            with_listeners - alone,
            "under 2",
            "difference to no viewers",
        ),
        figure(
            "five have the overview open",
            with_pages - alone,
            "under 2",
            "events, and the requests of the page every 2 s",
        ),
    ])
}

/// Sends the requests of an open page until the task is aborted.
async fn poll_page(mut client: Client) -> Result<()> {
    let mut paths = page_requests();
    loop {
        for path in paths {
            client.body(&path).await?;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
        paths = poll_requests(POLL_INTERVAL);
    }
}

/// Returns the processor use of the program in percent of a core.
async fn cpu_percent(program: &Program) -> Result<f64> {
    tokio::time::sleep(SETTLE_TIME).await;
    let (began, before) = (Instant::now(), program.cpu_seconds()?);
    tokio::time::sleep(MEASURE_TIME).await;
    let used = program.cpu_seconds()? - before;
    Ok(100.0 * used / began.elapsed().as_secs_f64())
}
