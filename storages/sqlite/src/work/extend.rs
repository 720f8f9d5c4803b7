//! Extend: renewing leases that are still the current ones.

use punctual::jiff::Timestamp;
use punctual::model::LeaseRef;
use punctual::storage::Extended;
use punctual_rows::instant::micros;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::fault::Tried;

const EXTEND: &str = "UPDATE punctual_message SET lease_until = ?3 \
     WHERE id = ?1 AND token = ?2 AND state = 1 RETURNING cancel_requested";

/// Renews each lease until an instant.
pub(crate) fn extend(
    transaction: &Connection,
    leases: &[LeaseRef],
    until: Timestamp,
) -> Tried<Vec<Extended>> {
    let mut statement = transaction.prepare_cached(EXTEND)?;
    let mut answers = Vec::with_capacity(leases.len());
    for lease in leases {
        let id = lease.message.as_uuid();
        let token = i64::try_from(lease.token).unwrap_or(i64::MAX);
        let row = params![id.as_bytes(), token, micros(until)];
        let cancel_requested: Option<bool> =
            statement.query_row(row, |row| row.get(0)).optional()?;
        answers.push(extended(cancel_requested));
    }
    Ok(answers)
}

/// What became of a lease, of which this is whether its message is to be cancelled, if it is current.
pub(super) fn extended(cancel_requested: Option<bool>) -> Extended {
    match cancel_requested {
        None => Extended::Lost,
        Some(true) => Extended::CancelRequested,
        Some(false) => Extended::Held,
    }
}
