//! Rates: one row for each name with its latest starts, locked while the policy decides on a request.

use punctual::backend::policy::{RateGrant, RateStarts, grant_starts};
use punctual::backend::storage::RateRequest;
use punctual::jiff::Timestamp;
use punctual_columns::instant::{instant, micros_up};
use tokio_postgres::types::Type;

use crate::error::StorageError;
use crate::inner::Inner;
use crate::session::Session;
use crate::value::{Micros, Param};

impl Inner {
    pub(crate) async fn acquire_rate(
        &self,
        session: &Session<'_>,
        request: &RateRequest,
        now: Timestamp,
    ) -> Result<RateGrant, StorageError> {
        let (table, name) = (format!("{}.rate", self.schema.quoted), request.name.as_str());
        let select = format!("SELECT used_until, starts FROM {table} WHERE name = $1 FOR UPDATE");
        let rows = session.query_text(&select, &[(&name, Type::TEXT)]).await?;
        let known = rows.first();
        let starts = match known {
            None => RateStarts::default(),
            Some(row) => {
                if let Some(text) = row.try_get::<_, Option<&str>>(1)? {
                    RateStarts::from_text(text)
                } else {
                    let used_until = instant(row.try_get::<_, Micros>(0)?.0)?;
                    RateStarts::from_used_until(request.rate, used_until, now)
                }
            }
        };
        let (permitted, starts) = grant_starts(request.rate, &starts, request.requested, now);
        if permitted.granted == 0 {
            return Ok(permitted);
        }
        let used = Micros(micros_up(starts.used_until(request.rate).unwrap_or(now)));
        let text_of_starts = starts.to_text();
        let text = match known {
            // Another transaction may insert the same name at the same time.
            None => format!(
                "INSERT INTO {table} (name, used_until, starts) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"
            ),
            Some(_) => format!("UPDATE {table} SET used_until = $2, starts = $3 WHERE name = $1"),
        };
        let params: [Param<'_>; 3] =
            [(&name, Type::TEXT), (&used, Type::TIMESTAMPTZ), (&text_of_starts, Type::TEXT)];
        if session.execute_text(&text, &params).await? == 1 {
            Ok(permitted)
        } else {
            Err(StorageError::Raced)
        }
    }
}
