//! The program as it is shipped: how soon it is ready, how much memory it holds while little happens, and how
//! large it is.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::program::Program;
use super::{JOBS, configure};
use crate::figure::{Figure, percentile};

/// How often the program is started.
const TIMES: usize = 5;
/// How long the example plays before its memory is looked at.
const PLAYING: Duration = Duration::from_secs(20);
/// Says what the program was built with; `cargo xtask bench server` sets it.
const FEATURES: &str = "PUNCTUAL_BINARY_FEATURES";

pub(super) async fn measure(binary: &Path) -> Result<Vec<Figure>> {
    let mut figures = ready(binary).await?;
    figures.push(memory(binary).await?);
    figures.push(size(binary)?);
    Ok(figures)
}

async fn ready(binary: &Path) -> Result<Vec<Figure>> {
    let folder = tempfile::tempdir()?;
    let address = format!("sqlite:{}", folder.path().join("punctual.db").display());
    let roles = "[\"scheduler\", \"worker\", \"api\", \"relay\"]";
    let config = configure(folder.path(), &address, roles, JOBS)?;
    let config = config.to_string_lossy();
    let mut took = Vec::with_capacity(TIMES);
    let mut first = 0.0;
    for time in 0..=TIMES {
        let program = Program::start(binary, folder.path(), &["--config", &config]).await?;
        if time == 0 {
            first = program.ready_ms;
        } else {
            took.push(program.ready_ms);
        }
    }
    took.sort_by(f64::total_cmp);
    let figure = |name: &str, value: f64, how: String| Figure {
        name: format!("start: {name}"),
        value,
        unit: "ms",
        asked: "under 300",
        how,
    };
    let longest = percentile(&took, 100);
    Ok(vec![
        figure(
            "to ready, SQLite, 1,000 jobs",
            percentile(&took, 50),
            format!("median of {TIMES}, the longest {longest:.0} ms; asked every 2 ms"),
        ),
        figure(
            "to ready, the first time",
            first,
            "makes the file and writes down all jobs; once".to_owned(),
        ),
    ])
}

async fn memory(binary: &Path) -> Result<Figure> {
    let folder = tempfile::tempdir()?;
    let program = Program::start(binary, folder.path(), &["--demo"]).await?;
    tokio::time::sleep(PLAYING).await;
    Ok(Figure {
        name: "memory of the demo".to_owned(),
        value: program.resident_mb()?,
        unit: "MB",
        asked: "under 40",
        how: format!("VmRSS {} s after the start, nobody looks", PLAYING.as_secs()),
    })
}

/// Exact: far below the 52 bits of a mantissa.
#[allow(clippy::cast_precision_loss)]
fn size(binary: &Path) -> Result<Figure> {
    let features = std::env::var(FEATURES).unwrap_or_else(|_| "unknown".to_owned());
    Ok(Figure {
        name: "size of the program".to_owned(),
        value: std::fs::metadata(binary)?.len() as f64 / 1e6,
        unit: "MB",
        asked: "under 40",
        how: format!("the file as built for release; features: {features}"),
    })
}
