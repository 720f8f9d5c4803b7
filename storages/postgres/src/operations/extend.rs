//! Extend: renews leases that are still the current ones.

use std::collections::HashMap;

use punctual::backend::storage::ExtendResult;
use punctual::jiff::Timestamp;
use punctual::model::LeaseRef;
use punctual_columns::instant::micros_up;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::error::StorageError;
use crate::inner::Inner;
use crate::session::Session;
use crate::value::{Micros, Param};

impl Inner {
    pub(crate) async fn extend(
        &self,
        session: &Session<'_>,
        leases: &[LeaseRef],
        until: Timestamp,
    ) -> Result<Vec<ExtendResult>, StorageError> {
        let named = |lease: &LeaseRef| (lease.message.as_uuid(), token(lease.token));
        let (mut ids, mut tokens): (Vec<Uuid>, Vec<i64>) = leases.iter().map(named).unzip();
        ids.sort_unstable();
        tokens.sort_unstable();
        let params: [Param<'_>; 3] = [
            (&ids, Type::UUID_ARRAY),
            (&tokens, Type::INT8_ARRAY),
            (&Micros(micros_up(until)), Type::TIMESTAMPTZ),
        ];
        let mut current: HashMap<(Uuid, i64), bool> = HashMap::new();
        for row in session.query(&self.sql.extend, &params).await? {
            current.insert((row.try_get(0)?, row.try_get(1)?), row.try_get(2)?);
        }
        let result = |lease: &LeaseRef| match current.get(&named(lease)) {
            None => ExtendResult::Lost,
            Some(true) => ExtendResult::CancelRequested,
            Some(false) => ExtendResult::Held,
        };
        Ok(leases.iter().map(result).collect())
    }
}

/// Converts a token for its column; a token that does not fit was never issued.
pub(crate) fn token(token: u64) -> i64 {
    i64::try_from(token).unwrap_or(-1)
}
