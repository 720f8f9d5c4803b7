//! Fire: stores the messages of occurrences and moves the cursors of their jobs, in one transaction, once for
//! any number of nodes.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use punctual::backend::storage::{Entry, FireResult, Firing};
use punctual::jiff::Timestamp;
use punctual::model::{JobRecord, Message};
use punctual_columns::instant::micros;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::error::StorageError;
use crate::inner::Inner;
use crate::operations::enqueue::CHUNK;
use crate::operations::waiting_queues::FreedSlots;
use crate::pending_notifications::PendingNotifications;
use crate::row::ExecutionArrays;
use crate::session::Session;
use crate::value::{Micros, Param};

impl Inner {
    /// Fires: locks the jobs in the order of their names, decides each firing, and writes the result. Returns also
    /// the notifications that follow.
    pub(crate) async fn fire(
        &self,
        session: &Session<'_>,
        firings: &[Firing],
        (now, tries): (Timestamp, u32),
    ) -> Result<(Vec<FireResult>, PendingNotifications), StorageError> {
        let names: BTreeSet<&str> = firings.iter().map(|firing| firing.job.as_str()).collect();
        let names: Vec<&str> = names.into_iter().collect();
        let mut jobs = HashMap::new();
        for row in session.query(&self.sql.jobs_lock, &[(&names, Type::TEXT_ARRAY)]).await? {
            let version = u64::try_from(row.try_get::<_, i64>(1)?).unwrap_or_default();
            jobs.insert(row.try_get::<_, String>(0)?, (version, row.try_get::<_, bool>(2)?));
        }
        let mut alive: HashMap<String, Vec<(Uuid, i16)>> = HashMap::new();
        let at = Micros(micros(now));
        let params: [Param<'_>; 2] = [(&names, Type::TEXT_ARRAY), (&at, Type::TIMESTAMPTZ)];
        for row in session.query(&self.sql.jobs_blocking, &params).await? {
            let one = (row.try_get(0)?, row.try_get(2)?);
            alive.entry(row.try_get(1)?).or_default().push(one);
        }
        let mut notifications = PendingNotifications::default();
        let mut resumed = HashSet::new();
        let mut results = Vec::with_capacity(firings.len());
        let mut applied: Vec<&Firing> = Vec::new();
        for firing in firings {
            let name = firing.job.as_str();
            let job = jobs.get_mut(name).filter(|(version, _)| *version == firing.seen);
            let Some((version, paused)) = job else {
                results.push(FireResult::AlreadyMoved);
                continue;
            };
            let count = u32::try_from(alive.get(name).map_or(0, Vec::len)).unwrap_or(u32::MAX);
            if firing.alive_max.is_some_and(|most| count > most) {
                results.push(FireResult::Overlapping(count));
                continue;
            }
            *version += 1;
            if std::mem::replace(paused, firing.after.paused.is_some()) && !*paused {
                resumed.insert(name.to_owned());
            }
            if firing.cancel_alive {
                let stopped = alive.remove(name).unwrap_or_default();
                let stopped = self.stop(session, &stopped, now).await?;
                notifications.leases |= stopped.has_requested;
                notifications.add_due_queues(stopped.freed);
            }
            let due = firing.messages.iter().filter(|message| message.due_at <= now);
            let fresh = due.map(|message| (message.id.as_uuid(), 0));
            alive.entry(name.to_owned()).or_default().extend(fresh);
            applied.push(firing);
            results.push(FireResult::Fired);
        }
        self.write_fired(session, &applied, (now, tries)).await?;
        for firing in applied {
            firing.messages.iter().for_each(|message| notifications.add_message(message));
            notifications.add_job(&firing.after);
        }
        let waiting = self.waiting(session, &FreedSlots::of_jobs(resumed), true).await?;
        notifications.add_waiting(waiting);
        Ok((results, notifications))
    }

    async fn write_fired(
        &self,
        session: &Session<'_>,
        applied: &[&Firing],
        (now, tries): (Timestamp, u32),
    ) -> Result<(), StorageError> {
        let entries: Vec<Entry> = applied
            .iter()
            .flat_map(|firing| &firing.messages)
            .map(|message: &Arc<Message>| Entry { message: Arc::clone(message), replace: false })
            .collect();
        if !entries.is_empty() {
            self.store(session, &entries, tries, now).await?;
        }
        let mut executions = ExecutionArrays::default();
        for skipped in applied.iter().flat_map(|firing| &firing.skipped) {
            executions.push(skipped);
        }
        if !executions.is_empty() {
            session.execute(&self.sql.append, &executions.params()).await?;
        }
        let after: Vec<JobRecord> = applied
            .iter()
            .map(|firing| JobRecord { version: firing.seen + 1, ..(*firing.after).clone() })
            .collect();
        for some in after.chunks(CHUNK) {
            self.update_jobs(session, some).await?;
        }
        Ok(())
    }
}
