//! What viewers cost the program: five who listen to its events, and five who have the overview open, as the
//! page asks for it; each beside the same program that nobody looks at. All rows are stored.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::client::Client;
use super::configure;
use super::filled::Filled;
use super::overview::{asked, asked_again};
use super::program::Program;
use crate::figure::Figure;

/// How many look.
const VIEWERS: usize = 5;
/// How long it is watched each time, and how long it is left alone before.
const WATCH: Duration = Duration::from_secs(20);
const QUIET: Duration = Duration::from_secs(3);
/// How often the page asks.
const EVERY: Duration = Duration::from_secs(2);

pub(super) async fn measure(binary: &Path, filled: &Filled) -> Result<Vec<Figure>> {
    let folder = tempfile::tempdir()?;
    let file = filled.file.as_ref().context("there is no file")?;
    let address = format!("sqlite:{}", file.display());
    let config = configure(folder.path(), &address, "[\"api\"]", 0)?;
    let config = config.to_string_lossy();
    let program = Program::start(binary, folder.path(), &["--config", &config]).await?;
    let alone = watched(&program).await?;
    let mut listeners = Vec::new();
    for _ in 0..VIEWERS {
        let client = Client::connect(program.address).await?;
        listeners.push(tokio::spawn(client.listen("/api/v1/events")));
    }
    let listening = watched(&program).await?;
    let mut pages = Vec::new();
    for _ in 0..VIEWERS {
        pages.push(tokio::spawn(page(Client::connect(program.address).await?)));
    }
    let looking = watched(&program).await?;
    let ended = listeners.iter().chain(&pages).any(tokio::task::JoinHandle::is_finished);
    listeners.iter().chain(&pages).for_each(tokio::task::JoinHandle::abort);
    anyhow::ensure!(!ended, "a viewer was cut off");
    let seconds = WATCH.as_secs();
    let figure = |name: &str, value: f64, asked, with: &str| Figure {
        name: format!("viewers: {name}"),
        value,
        unit: "% of a core",
        asked,
        how: format!(
            "{with}, over {seconds} s; {} rows on SQLite; {alone:.2} % while nobody looks",
            filled.rows.count
        ),
    };
    Ok(vec![
        figure(
            "five listen to an update every second",
            listening - alone,
            "under 2",
            "more than alone",
        ),
        figure(
            "five have the overview open",
            looking - alone,
            "under 2",
            "events, and every 2 s what the page asks for again",
        ),
    ])
}

/// What the page asks for when it is opened, and then again and again.
async fn page(mut client: Client) -> Result<()> {
    let mut wanted = asked();
    loop {
        for path in wanted {
            client.body(&path).await?;
        }
        tokio::time::sleep(EVERY).await;
        wanted = asked_again(EVERY);
    }
}

/// How much of a core the program needs.
async fn watched(program: &Program) -> Result<f64> {
    tokio::time::sleep(QUIET).await;
    let (began, before) = (Instant::now(), program.cpu_seconds()?);
    tokio::time::sleep(WATCH).await;
    let used = program.cpu_seconds()? - before;
    Ok(100.0 * used / began.elapsed().as_secs_f64())
}
