//! A storage full of rows, and a server inside this process that works on it. Of ten messages seven are
//! finished, two wait and one was given up; they were made evenly over the last day, in ten queues, of twenty
//! topics, about ten thousand keys; every seventh finished one is a run of one of a thousand jobs.

use std::path::PathBuf;

use anyhow::Result;
use jiff::Timestamp;
use punctual_server::Running;
use tempfile::TempDir;
use uuid::Uuid;

use super::{JOBS, configure, postgres_rows, sqlite_rows, start_here};

/// Over how long the rows were made.
const SPAN_MS: usize = 24 * 60 * 60 * 1_000;
/// How long before now the last one was made, so that none ends in the future.
const MARGIN_MS: i64 = 10_000;

/// What is put into a storage.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    /// How many.
    pub(super) count: usize,
    /// When the first was made, in milliseconds.
    pub(super) first_ms: i64,
    /// How far apart they are, in microseconds.
    pub(super) step_us: i64,
}

impl Rows {
    fn new(count: usize) -> Result<Self> {
        let first_ms = Timestamp::now().as_millisecond() - i64::try_from(SPAN_MS)? - MARGIN_MS;
        Ok(Self { count, first_ms, step_us: i64::try_from(SPAN_MS * 1_000 / count.max(1))? })
    }

    /// When a row was made, in milliseconds.
    pub(super) fn at(self, number: usize) -> i64 {
        self.first_ms + i64::try_from(number).unwrap_or(i64::MAX) * self.step_us / 1_000
    }

    /// The id of a row, as the statements make it.
    pub(super) fn id(self, number: usize) -> Uuid {
        let (at, number) = (self.at(number).unsigned_abs(), number as u64);
        Uuid::from_u64_pair((at << 16) | 0x7000 | (number % 4_096), (0x8 << 60) | number)
    }
}

/// A storage full of rows, and a server on it.
pub(super) struct Filled {
    /// The name of the storage.
    pub(super) name: &'static str,
    pub(super) rows: Rows,
    pub(super) server: Running,
    /// The file, where there is one.
    pub(super) file: Option<PathBuf>,
    /// How long filling took, in seconds.
    pub(super) took: f64,
    _folder: TempDir,
}

impl Filled {
    pub(super) async fn sqlite(count: usize) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("punctual.db");
        let address = format!("sqlite:{}", file.display());
        let config = configure(folder.path(), &address, ROLES, JOBS)?;
        // Whoever starts first makes the tables.
        start_here(&config).await?.shutdown().await;
        let began = std::time::Instant::now();
        let rows = Rows::new(count)?;
        sqlite_rows::fill(&file, rows)?;
        let took = began.elapsed().as_secs_f64();
        let server = start_here(&config).await?;
        Ok(Self { name: "sqlite", rows, server, file: Some(file), took, _folder: folder })
    }

    pub(super) async fn postgres(url: &str, count: usize) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        postgres_rows::clear(url).await?;
        let address = postgres_rows::address(url);
        let config = configure(folder.path(), &address, ROLES, JOBS)?;
        start_here(&config).await?.shutdown().await;
        let began = std::time::Instant::now();
        let rows = Rows::new(count)?;
        postgres_rows::fill(url, rows).await?;
        let took = began.elapsed().as_secs_f64();
        let server = start_here(&config).await?;
        Ok(Self { name: "postgres", rows, server, file: None, took, _folder: folder })
    }
}

/// It answers, and knows its jobs; nobody handles what waits.
const ROLES: &str = "[\"api\", \"scheduler\"]";
