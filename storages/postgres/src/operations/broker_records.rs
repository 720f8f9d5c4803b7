//! Broker records: the history of messages that a broker delivers, and their dead letters.

use punctual::backend::storage::BrokerRecord;
use punctual::jiff::Timestamp;

use crate::error::StorageError;
use crate::inner::Inner;
use crate::operations::enqueue::CHUNK;
use crate::row::ExecutionArrays;
use crate::session::Session;

impl Inner {
    /// Stores executions of broker's messages, and those that are dead.
    pub(crate) async fn record(
        &self,
        session: &mut Session<'_>,
        records: &[BrokerRecord],
        now: Timestamp,
    ) -> Result<(), StorageError> {
        for some in records.chunks(CHUNK) {
            let mut executions = ExecutionArrays::default();
            for record in some {
                executions.push(&record.execution);
            }
            session.execute(&self.sql.append, &executions.params()).await?;
        }
        let letters = records.iter().filter_map(|record| record.dead.as_deref());
        self.store_dead_letters(session, letters.collect(), now).await
    }
}
