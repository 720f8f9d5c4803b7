//! A job's record as JSON. Few columns beside it are ever asked for; those are computed from it.

use punctual::model::JobRecord;
use punctual::{Error, ErrorKind, Result};

/// The record as text for a column.
pub fn written(record: &JobRecord) -> Result<String> {
    serde_json::to_string(record).map_err(|error| {
        Error::internal(format!("the job {:?} cannot be written down: {error}", record.job.name))
            .caused_by(error)
    })
}

/// The record a column holds.
pub fn read(name: &str, text: &str) -> Result<JobRecord> {
    serde_json::from_str(text).map_err(|error| {
        Error::new(ErrorKind::Corrupt, format!("the stored job {name:?} is damaged: {error}"))
            .caused_by(error)
    })
}

/// Whether a declaration differs from what is stored, apart from its version and times.
pub fn differs(stored: &JobRecord, declared: &JobRecord) -> bool {
    let as_stored = JobRecord {
        version: stored.version,
        created_at: stored.created_at,
        updated_at: stored.updated_at,
        ..declared.clone()
    };
    as_stored != *stored
}
