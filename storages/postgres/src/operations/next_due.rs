//! Next due times of queues and jobs, of several sources in one statement.

use punctual::Result;
use punctual::backend::storage::{NEXT_DUE_SCAN_MAX, WakeSource};
use punctual::jiff::Timestamp;
use punctual::model::{MessageState, Queue};
use punctual_columns::code::Code as _;
use punctual_columns::instant::instant;
use tokio_postgres::types::Type;

use crate::inner::{Inner, attempt};
use crate::operations::topics::due_filter;
use crate::value::{Micros, Param};

impl Inner {
    pub(crate) async fn next_due(&self, source: &WakeSource) -> Result<Option<Timestamp>> {
        if *source == WakeSource::Leases {
            return Ok(None);
        }
        Ok(self.next_due_all(std::slice::from_ref(source)).await?.pop().flatten())
    }

    /// Returns the next due times of several sources, with one statement.
    pub(crate) async fn next_due_all(
        &self,
        sources: &[WakeSource],
    ) -> Result<Vec<Option<Timestamp>>> {
        let queries: Vec<_> =
            sources.iter().map(|source| self.notifications.begin_query(source)).collect();
        let queues: Vec<&str> =
            sources.iter().map(|source| source.queue().map_or("", Queue::as_str)).collect();
        let (own, topics): (Vec<bool>, Vec<Option<String>>) =
            sources.iter().map(due_filter).unzip();
        let walked = i64::try_from(NEXT_DUE_SCAN_MAX).unwrap_or(i64::MAX);
        let due: Vec<Option<i64>> = attempt!(self, |session| async {
            let params: [Param<'_>; 5] = [
                (&queues, Type::TEXT_ARRAY),
                (&MessageState::Pending.code(), Type::INT2),
                (&own, Type::BOOL_ARRAY),
                (&topics, Type::TEXT_ARRAY),
                (&walked, Type::INT8),
            ];
            let rows = session.query(&self.sql.next_due, &params).await?;
            let mut due = vec![None; sources.len()];
            for row in &rows {
                let place = usize::try_from(row.try_get::<_, i64>(0)? - 1).unwrap_or_default();
                let column = match sources.get(place) {
                    Some(WakeSource::Topics(_, topics)) if topics.is_none() => continue,
                    Some(WakeSource::Queue(_) | WakeSource::Topics(..)) => 1,
                    Some(WakeSource::Jobs) => 2,
                    Some(WakeSource::Leases) | None => continue,
                };
                due[place] = row.try_get::<_, Option<Micros>>(column)?.map(|at| at.0);
            }
            Ok(due)
        })?;
        for (query, due) in queries.into_iter().zip(&due) {
            query.finish(*due);
        }
        due.into_iter().map(|due| due.map(instant).transpose()).collect()
    }
}
