//! Broker records: the history of messages that a broker delivers, and their dead letters.

use punctual::Result;
use punctual::backend::storage::BrokerRecord;
use punctual::jiff::Timestamp;

use crate::inner::{Inner, attempt};
use crate::operations::enqueue::CHUNK;
use crate::row::ExecutionArrays;

impl Inner {
    pub(crate) async fn record(&self, records: &[BrokerRecord], now: Timestamp) -> Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        attempt!(self, |session| async {
            session.begin().await?;
            for some in records.chunks(CHUNK) {
                let mut executions = ExecutionArrays::default();
                for record in some {
                    executions.push(&record.execution);
                }
                session.execute(&self.sql.append, &executions.params()).await?;
            }
            let letters = records.iter().filter_map(|record| record.dead.as_deref());
            self.store_dead_letters(session, letters.collect(), now).await?;
            session.commit().await
        })
    }
}
