//! Extend: renews leases that are still the current ones.

use punctual::backend::storage::ExtendResult;
use punctual::jiff::Timestamp;
use punctual::model::LeaseRef;
use punctual_columns::instant::micros;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::error::StorageResult;

const EXTEND: &str = "UPDATE punctual_message SET lease_until = ?3 \
     WHERE id = ?1 AND token = ?2 AND state = 1 RETURNING cancel_requested";

/// Renews each lease until an instant.
pub(crate) fn extend(
    transaction: &Connection,
    leases: &[LeaseRef],
    until: Timestamp,
) -> StorageResult<Vec<ExtendResult>> {
    let mut statement = transaction.prepare_cached(EXTEND)?;
    let mut results = Vec::with_capacity(leases.len());
    for lease in leases {
        let id = lease.message.as_uuid();
        let token = i64::try_from(lease.token).unwrap_or(i64::MAX);
        let row = params![id.as_bytes(), token, micros(until)];
        let cancel_requested: Option<bool> =
            statement.query_row(row, |row| row.get(0)).optional()?;
        results.push(extended(cancel_requested));
    }
    Ok(results)
}

/// Maps the `cancel_requested` of a current lease to its result; none is a lost lease.
pub(super) fn extended(cancel_requested: Option<bool>) -> ExtendResult {
    match cancel_requested {
        None => ExtendResult::Lost,
        Some(true) => ExtendResult::CancelRequested,
        Some(false) => ExtendResult::Held,
    }
}
