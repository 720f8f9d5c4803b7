//! Deduplication keys that keep others out for a time, also when their message has ended. A key is looked
//! at and written in the transaction that stores its message.

use std::collections::HashSet;

use punctual::clock::add;
use punctual::jiff::Timestamp;
use punctual::model::{Message, MessageId, Unique};
use punctual::storage::Entry;
use punctual_rows::instant::micros_up;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::driver::{Cells as _, Driver};
use crate::enqueue::{CHUNK, dedupes_of};
use crate::failure::Failure;
use crate::inner::Inner;
use crate::judge::Known;
use crate::value::{Micros, Param};

impl Inner {
    /// Who holds the keys of a batch, locked; those whose time is not over are known from now on.
    /// Answers all of them.
    pub(crate) async fn holders(
        &self,
        held: &impl Driver,
        entries: &[Entry],
        (now, known): (Timestamp, &mut Known),
    ) -> Result<HashSet<Uuid>, Failure> {
        let mut holders = HashSet::new();
        let mut keys: Vec<&str> = dedupes_of(entries).collect();
        keys.sort_unstable();
        for some in keys.chunks(CHUNK) {
            for row in held.query(&self.sql.held_keys, &[(&some, Type::TEXT_ARRAY)]).await? {
                let holder: Uuid = row.cell(1)?;
                holders.insert(holder);
                if row.cell::<Micros>(2)?.0 > micros_up(now) {
                    known.holds(row.cell(0)?, MessageId::from_uuid(holder));
                }
            }
        }
        Ok(holders)
    }

    /// Messages that were accepted now keep others out for as long as they say.
    pub(crate) async fn hold_keys(
        &self,
        held: &impl Driver,
        messages: &[&Message],
        seen: HashSet<Uuid>,
        now: Timestamp,
    ) -> Result<(), Failure> {
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
            if held.execute(&self.sql.hold_keys, &params).await? < some.len() as u64 {
                return Err(Failure::Raced);
            }
        }
        Ok(())
    }
}
