//! Job records as JSON. The few columns that are queried beside the JSON are computed from it.

use punctual::model::JobRecord;
use punctual::{Error, ErrorKind, Result};

/// Serializes a record for a column.
pub fn to_json(record: &JobRecord) -> Result<String> {
    serde_json::to_string(record).map_err(|error| {
        Error::internal(format!("the job {:?} cannot be serialized: {error}", record.job.name))
            .caused_by(error)
    })
}

/// Deserializes the record of a column.
pub fn from_json(name: &str, text: &str) -> Result<JobRecord> {
    serde_json::from_str(text).map_err(|error| {
        Error::new(ErrorKind::Corrupt, format!("the stored job {name:?} is damaged: {error}"))
            .caused_by(error)
    })
}

/// Returns whether a declaration differs from the stored record, apart from version and times.
pub fn differs(stored: &JobRecord, declared: &JobRecord) -> bool {
    let as_stored = JobRecord {
        version: stored.version,
        created_at: stored.created_at,
        updated_at: stored.updated_at,
        ..declared.clone()
    };
    as_stored != *stored
}
