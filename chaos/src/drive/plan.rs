//! What a run is to do: which storage, how many kills, which seed.

use std::path::Path;
use std::time::Duration;

/// Between two strikes at least.
pub(super) const REST_MIN: Duration = Duration::from_millis(300);
/// Between two strikes at most.
pub(super) const REST_MAX: Duration = Duration::from_millis(1_300);

/// What a run is to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The storage.
    pub storage: Place,
    /// The schema, where there are schemas; new for every run.
    pub schema: String,
    /// How many workers are killed at least.
    pub kills: usize,
    /// How many workers there are at any time.
    pub workers: usize,
    /// Where all random choices begin.
    pub seed: u64,
}

/// Where the messages are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a file in the run's own folder.
    Sqlite,
    /// In the database at this address.
    Postgres(String),
}

impl Place {
    /// The storage, by name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres(_) => "postgres",
        }
    }
}

impl Plan {
    /// The connection string of the run.
    pub(super) fn address(&self, folder: &Path) -> String {
        match &self.storage {
            Place::Sqlite => format!("sqlite:{}", folder.join("messages.db").display()),
            Place::Postgres(address) => address.clone(),
        }
    }

    /// A run that takes longer than this has gone wrong.
    pub(super) fn length_max(&self) -> Duration {
        let kills = u32::try_from(self.kills).unwrap_or(u32::MAX);
        Duration::from_secs(60) + REST_MAX.saturating_mul(kills).saturating_mul(4)
    }
}
