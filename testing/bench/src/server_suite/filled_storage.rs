//! Filled storage: a storage full of rows with a server inside this process. Of ten messages seven are finished,
//! two wait and one is a dead letter; they were created evenly over the last day in ten queues, with twenty topics
//! and about ten thousand keys; every seventh finished one is a run of one of a thousand jobs.

use std::path::PathBuf;

use anyhow::Result;
use jiff::Timestamp;
use punctual_server::RunningServer;
use tempfile::TempDir;
use uuid::Uuid;

use super::{JOBS, postgres_rows, sqlite_rows, start_server, write_config};

/// Time over which the rows were created.
const SPAN_MS: usize = 24 * 60 * 60 * 1_000;
/// Time between the last row and now, so that no message ends in the future.
const MARGIN_MS: i64 = 10_000;

/// Number and creation times of the stored rows.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub(super) count: usize,
    /// Creation time of the first row, in milliseconds since the epoch.
    pub(super) first_ms: i64,
    /// Time between two rows, in microseconds.
    pub(super) step_us: i64,
}

impl Rows {
    fn new(count: usize) -> Result<Self> {
        let first_ms = Timestamp::now().as_millisecond() - i64::try_from(SPAN_MS)? - MARGIN_MS;
        Ok(Self { count, first_ms, step_us: i64::try_from(SPAN_MS * 1_000 / count.max(1))? })
    }

    /// Returns the creation time of a row, in milliseconds since the epoch.
    pub(super) fn at(self, number: usize) -> i64 {
        self.first_ms + i64::try_from(number).unwrap_or(i64::MAX) * self.step_us / 1_000
    }

    /// Returns the id of a row, as the SQL statements compute it.
    pub(super) fn id(self, number: usize) -> Uuid {
        let (at, number) = (self.at(number).unsigned_abs(), number as u64);
        Uuid::from_u64_pair((at << 16) | 0x7000 | (number % 4_096), (0x8 << 60) | number)
    }
}

/// Storage full of rows with a server on it.
pub(super) struct FilledStorage {
    /// Name of the storage: `sqlite` or `postgres`.
    pub(super) name: &'static str,
    pub(super) rows: Rows,
    pub(super) server: RunningServer,
    /// File of the storage; none on PostgreSQL.
    pub(super) file: Option<PathBuf>,
    /// Time it took to fill the storage, in seconds.
    pub(super) took: f64,
    _folder: TempDir,
}

impl FilledStorage {
    pub(super) async fn sqlite(count: usize) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("punctual.db");
        let address = format!("sqlite:{}", file.display());
        let config = write_config(folder.path(), &address, ROLES, JOBS)?;
        // The first start creates the tables.
        start_server(&config).await?.shutdown().await;
        let began = std::time::Instant::now();
        let rows = Rows::new(count)?;
        sqlite_rows::fill(&file, rows)?;
        let took = began.elapsed().as_secs_f64();
        let server = start_server(&config).await?;
        Ok(Self { name: "sqlite", rows, server, file: Some(file), took, _folder: folder })
    }

    pub(super) async fn postgres(url: &str, count: usize) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        postgres_rows::clear(url).await?;
        let address = postgres_rows::address(url);
        let config = write_config(folder.path(), &address, ROLES, JOBS)?;
        start_server(&config).await?.shutdown().await;
        let began = std::time::Instant::now();
        let rows = Rows::new(count)?;
        postgres_rows::fill(url, rows).await?;
        let took = began.elapsed().as_secs_f64();
        let server = start_server(&config).await?;
        Ok(Self { name: "postgres", rows, server, file: None, took, _folder: folder })
    }
}

/// Roles without `worker`, so that pending messages stay pending.
const ROLES: &str = "[\"api\", \"scheduler\"]";
