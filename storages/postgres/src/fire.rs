//! Fire: occurrences become messages and the cursor moves, in one step, once on however many nodes.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use punctual::Result;
use punctual::jiff::Timestamp;
use punctual::model::{JobRecord, Message};
use punctual::storage::{Entry, Fired, Firing, Line};
use punctual_rows::instant::micros;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::batches::Freed;
use crate::columns::Executions;
use crate::enqueue::CHUNK;
use crate::failure::Failure;
use crate::inner::{Inner, attempt};
use crate::session::Session;
use crate::turns::Turns;
use crate::value::{Micros, Param};

/// What a firing has to tell.
#[derive(Default)]
struct FireNews {
    waiting: HashSet<String>,
    asked: bool,
    freed: Freed,
}

impl Inner {
    pub(crate) async fn fire(
        self: &Arc<Self>,
        firings: &[Firing],
        now: Timestamp,
    ) -> Result<Vec<Fired>> {
        if firings.is_empty() {
            return Ok(Vec::new());
        }
        let (answers, news) = attempt!(self, |held, tries| async {
            held.begin().await?;
            let answer = self.fire_within(held, firings, now, tries).await?;
            held.commit().await?;
            Ok(answer)
        })?;
        let fired = || firings.iter().zip(&answers).filter(|(_, answer)| **answer == Fired::Fired);
        self.tell_due(fired().flat_map(|(firing, _)| firing.messages.iter().map(|one| &**one)));
        for (firing, _) in fired() {
            self.tell_job(&firing.after);
        }
        self.tell_turns(news.waiting);
        self.tell_all(news.freed);
        if news.asked {
            self.tell(Line::Leases, Micros::MIN.0);
        }
        Ok(answers)
    }

    /// Fires inside a transaction: locks the jobs in the order of their names, judges each firing,
    /// and writes what was judged.
    async fn fire_within(
        &self,
        held: &Session<'_>,
        firings: &[Firing],
        now: Timestamp,
        tries: u32,
    ) -> Result<(Vec<Fired>, FireNews), Failure> {
        let names: BTreeSet<&str> = firings.iter().map(|firing| firing.job.as_str()).collect();
        let names: Vec<&str> = names.into_iter().collect();
        let mut jobs = HashMap::new();
        for row in held.query(&self.sql.jobs_lock, &[(&names, Type::TEXT_ARRAY)]).await? {
            let version = u64::try_from(row.try_get::<_, i64>(1)?).unwrap_or_default();
            jobs.insert(row.try_get::<_, String>(0)?, (version, row.try_get::<_, bool>(2)?));
        }
        let mut alive: HashMap<String, Vec<(Uuid, i16)>> = HashMap::new();
        let at = Micros(micros(now));
        let asked: [Param<'_>; 2] = [(&names, Type::TEXT_ARRAY), (&at, Type::TIMESTAMPTZ)];
        for row in held.query(&self.sql.jobs_in_the_way, &asked).await? {
            let one = (row.try_get(0)?, row.try_get(2)?);
            alive.entry(row.try_get(1)?).or_default().push(one);
        }
        let mut news = FireNews::default();
        let mut resumed = HashSet::new();
        let mut answers = Vec::with_capacity(firings.len());
        let mut applied: Vec<&Firing> = Vec::new();
        for firing in firings {
            let name = firing.job.as_str();
            let job = jobs.get_mut(name).filter(|(version, _)| *version == firing.seen);
            let Some((version, paused)) = job else {
                answers.push(Fired::AlreadyMoved);
                continue;
            };
            let count = u32::try_from(alive.get(name).map_or(0, Vec::len)).unwrap_or(u32::MAX);
            if firing.alive_max.is_some_and(|most| count > most) {
                answers.push(Fired::Overlapping(count));
                continue;
            }
            *version += 1;
            if std::mem::replace(paused, firing.after.paused.is_some()) && !*paused {
                resumed.insert(name.to_owned());
            }
            if firing.cancel_alive {
                let stopped = alive.remove(name).unwrap_or_default();
                let stopped = self.stop(held, &stopped, now).await?;
                news.asked |= stopped.asked;
                news.freed.extend(stopped.freed);
            }
            let due = firing.messages.iter().filter(|message| message.due_at <= now);
            let fresh = due.map(|message| (message.id.as_uuid(), 0));
            alive.entry(name.to_owned()).or_default().extend(fresh);
            applied.push(firing);
            answers.push(Fired::Fired);
        }
        self.write_fired(held, &applied, (now, tries)).await?;
        news.waiting = self.waiting(held, &Turns::of_jobs(resumed), true).await?;
        Ok((answers, news))
    }

    async fn write_fired(
        &self,
        held: &Session<'_>,
        applied: &[&Firing],
        (now, tries): (Timestamp, u32),
    ) -> Result<(), Failure> {
        let entries: Vec<Entry> = applied
            .iter()
            .flat_map(|firing| &firing.messages)
            .map(|message: &Arc<Message>| Entry { message: Arc::clone(message), replace: false })
            .collect();
        if !entries.is_empty() {
            self.store(held, &entries, tries, now).await?;
        }
        let mut executions = Executions::default();
        for skipped in applied.iter().flat_map(|firing| &firing.skipped) {
            executions.push(skipped);
        }
        if !executions.is_empty() {
            held.execute(&self.sql.append, &executions.params()).await?;
        }
        let after: Vec<JobRecord> = applied
            .iter()
            .map(|firing| JobRecord { version: firing.seen + 1, ..(*firing.after).clone() })
            .collect();
        for some in after.chunks(CHUNK) {
            self.move_jobs(held, some).await?;
        }
        Ok(())
    }
}
