//! Plan of a run: storage, number of kills, seed.

use std::path::Path;
use std::time::Duration;

/// Shortest time between two kills.
pub(super) const KILL_INTERVAL_MIN: Duration = Duration::from_millis(300);
/// Longest time between two kills.
pub(super) const KILL_INTERVAL_MAX: Duration = Duration::from_millis(1_300);

/// Plan of a run.
#[derive(Clone, Debug)]
pub struct KillPlan {
    /// Storage to run on.
    pub storage: StorageTarget,
    /// Schema on PostgreSQL; new for every run.
    pub schema: String,
    /// Smallest number of kills.
    pub kills: usize,
    /// Number of concurrent workers.
    pub workers: usize,
    /// Seed of all random choices.
    pub seed: u64,
}

/// Storage of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorageTarget {
    /// A SQLite file in the folder of the run.
    Sqlite,
    /// The PostgreSQL database at this address.
    Postgres(String),
}

impl StorageTarget {
    /// Returns the name of the storage.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres(_) => "postgres",
        }
    }
}

impl KillPlan {
    /// Returns the connection string of the run.
    pub(super) fn address(&self, folder: &Path) -> String {
        match &self.storage {
            StorageTarget::Sqlite => format!("sqlite:{}", folder.join("messages.db").display()),
            StorageTarget::Postgres(address) => address.clone(),
        }
    }

    /// Returns the longest time of all kills; a longer run fails.
    pub(super) fn duration_max(&self) -> Duration {
        let kills = u32::try_from(self.kills).unwrap_or(u32::MAX);
        Duration::from_secs(60) + KILL_INTERVAL_MAX.saturating_mul(kills).saturating_mul(4)
    }
}
