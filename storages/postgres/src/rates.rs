//! Rates: one instant for each name, until which its starts have used it up. Whoever wants to start locks
//! it, and the arithmetic is the one of everybody.

use punctual::Result;
use punctual::jiff::Timestamp;
use punctual::policy::{Permitted, permit};
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
        let look = format!("SELECT used_until FROM {table} WHERE name = $1 FOR UPDATE");
        let rows = held.ask(&look, &[(&name, Type::TEXT)]).await?;
        let known = rows.first().map(|row| row.try_get::<_, Micros>(0)).transpose()?;
        let used = known.map(|known| instant(known.0)).transpose()?;
        let (permitted, used) = permit(wanted.rate, used, wanted.wanted, now);
        let used = Micros(micros_up(used));
        if known == Some(used) {
            return Ok(permitted);
        }
        let text = match known {
            // Somebody else may be the first with this name at the same time.
            None => format!(
                "INSERT INTO {table} (name, used_until) VALUES ($1, $2) ON CONFLICT DO NOTHING"
            ),
            Some(_) => format!("UPDATE {table} SET used_until = $2 WHERE name = $1"),
        };
        let params: [Param<'_>; 2] = [(&name, Type::TEXT), (&used, Type::TIMESTAMPTZ)];
        if held.tell(&text, &params).await? == 1 { Ok(permitted) } else { Err(Failure::Raced) }
    }
}
