//! Start of the shipped program: time until ready, memory of the demo, and file size.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::program::Program;
use super::{JOBS, write_config};
use crate::figure::{Figure, percentile};

/// Number of measured starts.
const STARTS: usize = 5;
/// Time the demo runs before its memory is read.
const DEMO_TIME: Duration = Duration::from_secs(20);
/// Environment variable with the features of the build; `cargo xtask bench server` sets it.
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
    let config = write_config(folder.path(), &address, roles, JOBS)?;
    let config = config.to_string_lossy();
    let mut times = Vec::with_capacity(STARTS);
    let mut first_ms = 0.0;
    for time in 0..=STARTS {
        let program = Program::start(binary, folder.path(), &["--config", &config]).await?;
        if time == 0 {
            first_ms = program.ready_ms;
        } else {
            times.push(program.ready_ms);
        }
    }
    times.sort_by(f64::total_cmp);
    let figure = |name: &str, value: f64, how: String| Figure {
        name: format!("start: {name}"),
        value,
        unit: "ms",
        target: "under 300",
        how,
    };
    let longest = percentile(&times, 100);
    Ok(vec![
        figure(
            "to ready, SQLite, 1,000 jobs",
            percentile(&times, 50),
            format!("median of {STARTS}, maximum {longest:.0} ms; polled every 2 ms"),
        ),
        figure(
            "to ready, the first time",
            first_ms,
            "creates the file and stores all jobs; one run".to_owned(),
        ),
    ])
}

async fn memory(binary: &Path) -> Result<Figure> {
    let folder = tempfile::tempdir()?;
    let program = Program::start(binary, folder.path(), &["--demo"]).await?;
    tokio::time::sleep(DEMO_TIME).await;
    Ok(Figure {
        name: "memory of the demo".to_owned(),
        value: program.resident_mb()?,
        unit: "MB",
        target: "under 40",
        how: format!("VmRSS {} s after the start, no viewers", DEMO_TIME.as_secs()),
    })
}

/// Measures the file size. Exact: far below the 52 bits of a mantissa.
#[allow(clippy::cast_precision_loss)]
fn size(binary: &Path) -> Result<Figure> {
    let features = std::env::var(FEATURES).unwrap_or_else(|_| "unknown".to_owned());
    Ok(Figure {
        name: "size of the program".to_owned(),
        value: std::fs::metadata(binary)?.len() as f64 / 1e6,
        unit: "MB",
        target: "under 40",
        how: format!("the file as built for release; features: {features}"),
    })
}
