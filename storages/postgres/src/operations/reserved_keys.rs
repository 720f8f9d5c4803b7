//! Reserved keys: deduplication keys that reject other messages for a period, also after their message has
//! ended. A reservation is read and written in the transaction that stores the message.

use std::collections::HashSet;

use punctual::backend::storage::Entry;
use punctual::clock::add;
use punctual::jiff::Timestamp;
use punctual::model::{Message, MessageId, Unique};
use punctual_columns::instant::micros_up;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::driver::{Cells as _, Driver};
use crate::error::StorageError;
use crate::inner::Inner;
use crate::operations::deduplication::KnownMessages;
use crate::operations::enqueue::{CHUNK, dedupes_of};
use crate::value::{Micros, Param};

impl Inner {
    /// Returns the messages that have reserved keys of a batch, and locks the reservations; adds those that are
    /// not expired to `known`.
    pub(crate) async fn reservations(
        &self,
        session: &impl Driver,
        entries: &[Entry],
        (now, known): (Timestamp, &mut KnownMessages),
    ) -> Result<HashSet<Uuid>, StorageError> {
        let mut reservations = HashSet::new();
        let mut keys: Vec<&str> = dedupes_of(entries).collect();
        keys.sort_unstable();
        for some in keys.chunks(CHUNK) {
            for row in session.query(&self.sql.reserved_keys, &[(&some, Type::TEXT_ARRAY)]).await? {
                let holder: Uuid = row.cell(1)?;
                reservations.insert(holder);
                if row.cell::<Micros>(2)?.0 > micros_up(now) {
                    known.reserve(row.cell(0)?, MessageId::from_uuid(holder));
                }
            }
        }
        Ok(reservations)
    }

    /// Reserves the keys of messages that were accepted now, for the period of each.
    pub(crate) async fn reserve_keys(
        &self,
        session: &impl Driver,
        messages: &[&Message],
        seen: HashSet<Uuid>,
        now: Timestamp,
    ) -> Result<(), StorageError> {
        let mut keys: Vec<(&str, Uuid, Micros)> = Vec::new();
        for message in messages {
            if let (Unique::For(period), Some(key)) = (message.unique(), &message.dedupe) {
                let until = Micros(micros_up(add(now, period)));
                keys.push((key.as_str(), message.id.as_uuid(), until));
            }
        }
        keys.sort_unstable();
        let seen: Vec<Uuid> = seen.into_iter().collect();
        for some in keys.chunks(CHUNK) {
            let names: Vec<&str> = some.iter().map(|(key, ..)| *key).collect();
            let ids: Vec<Uuid> = some.iter().map(|(_, id, _)| *id).collect();
            let until: Vec<Micros> = some.iter().map(|(.., until)| *until).collect();
            let params: [Param<'_>; 4] = [
                (&names, Type::TEXT_ARRAY),
                (&ids, Type::UUID_ARRAY),
                (&until, Type::TIMESTAMPTZ_ARRAY),
                (&seen, Type::UUID_ARRAY),
            ];
            if session.execute(&self.sql.reserve_keys, &params).await? < some.len() as u64 {
                return Err(StorageError::Raced);
            }
        }
        Ok(())
    }
}
