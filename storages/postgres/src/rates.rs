//! Rates: one row for each name with its latest starts, locked while a permit is decided by the policy.

use punctual::Result;
use punctual::jiff::Timestamp;
use punctual::policy::{Permitted, Starts, permit};
use punctual::storage::Permit;
use punctual_rows::instant::{instant, micros_up};
use tokio_postgres::types::Type;

use crate::failure::Failure;
use crate::inner::{Inner, attempt};
use crate::session::Session;
use crate::value::{Micros, Param};

impl Inner {
    pub(crate) async fn permit(&self, wanted: &Permit, now: Timestamp) -> Result<Permitted> {
        attempt!(self, |held| async {
            held.begin().await?;
            let permitted = self.permit_within(held, wanted, now).await?;
            held.commit().await?;
            Ok(permitted)
        })
    }

    async fn permit_within(
        &self,
        held: &Session<'_>,
        wanted: &Permit,
        now: Timestamp,
    ) -> Result<Permitted, Failure> {
        let (table, name) = (format!("{}.rate", self.schema.quoted), wanted.name.as_str());
        let look = format!("SELECT used_until, starts FROM {table} WHERE name = $1 FOR UPDATE");
        let rows = held.ask(&look, &[(&name, Type::TEXT)]).await?;
        let known = rows.first();
        let starts = match known {
            None => Starts::default(),
            Some(row) => {
                if let Some(text) = row.try_get::<_, Option<&str>>(1)? {
                    Starts::from_text(text)
                } else {
                    let used_until = instant(row.try_get::<_, Micros>(0)?.0)?;
                    Starts::from_used_until(wanted.rate, used_until, now)
                }
            }
        };
        let (permitted, starts) = permit(wanted.rate, &starts, wanted.wanted, now);
        if permitted.granted == 0 {
            return Ok(permitted);
        }
        let used = Micros(micros_up(starts.used_until(wanted.rate).unwrap_or(now)));
        let text_of_starts = starts.to_text();
        let text = match known {
            // Somebody else may be the first with this name at the same time.
            None => format!(
                "INSERT INTO {table} (name, used_until, starts) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"
            ),
            Some(_) => format!("UPDATE {table} SET used_until = $2, starts = $3 WHERE name = $1"),
        };
        let params: [Param<'_>; 3] =
            [(&name, Type::TEXT), (&used, Type::TIMESTAMPTZ), (&text_of_starts, Type::TEXT)];
        if held.tell(&text, &params).await? == 1 { Ok(permitted) } else { Err(Failure::Raced) }
    }
}
