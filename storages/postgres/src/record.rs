//! Record: the history of messages that a broker carries, and their dead letters.

use punctual::Result;
use punctual::jiff::Timestamp;
use punctual::storage::BrokerRecord;

use crate::columns::Executions;
use crate::enqueue::CHUNK;
use crate::inner::{Inner, attempt};

impl Inner {
    pub(crate) async fn record(&self, records: &[BrokerRecord], now: Timestamp) -> Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        attempt!(self, |held| async {
            held.begin().await?;
            for some in records.chunks(CHUNK) {
                let mut executions = Executions::default();
                for record in some {
                    executions.push(&record.execution);
                }
                held.execute(&self.sql.append, &executions.params()).await?;
            }
            let letters = records.iter().filter_map(|record| record.dead.as_deref());
            self.keep_letters(held, letters.collect(), now).await?;
            held.commit().await
        })
    }
}
