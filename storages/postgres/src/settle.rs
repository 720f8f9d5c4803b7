//! Settle: finished decisions and their executions in one step, each only by the current token.
//! Decisions of one kind go in one statement; several kinds in one transaction.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use punctual::Result;
use punctual::jiff::Timestamp;
use punctual::model::{Queue, State};
use punctual::policy::Verdict;
use punctual::storage::{Line, Settled, Settlement};
use punctual_rows::code::Code;
use punctual_rows::instant::{micros, micros_up};
use punctual_rows::message::column;
use punctual_rows::without_nul;
use tokio_postgres::types::Type;

use crate::driver::{Cells, Driver};
use crate::enqueue::CHUNK;
use crate::failure::Failure;
use crate::inner::{Inner, attempt};
use crate::session::Session;
use crate::settlements::{Attempts, Kind, Placed, is_one_kind, rounds};
use crate::statements::Statements;
use crate::value::{Micros, Param};

/// What a batch of decisions has led to so far.
struct Progress {
    answers: Vec<Settled>,
    /// Jobs of which a message no longer runs.
    jobs: HashSet<String>,
    /// What is due again, and when.
    due: HashMap<String, i64>,
}

impl Inner {
    pub(crate) async fn settle(
        self: &Arc<Self>,
        settlements: &[Settlement],
        now: Timestamp,
    ) -> Result<Vec<Settled>> {
        if settlements.is_empty() {
            return Ok(Vec::new());
        }
        let rounds = rounds(settlements);
        let is_one = rounds.len() == 1 && settlements.len() <= CHUNK && is_one_kind(settlements);
        let (progress, waiting) = attempt!(self, |held, tries| async {
            let mut progress = Progress {
                answers: vec![Settled::Lost; settlements.len()],
                jobs: HashSet::new(),
                due: HashMap::new(),
            };
            if !is_one {
                held.begin().await?;
            }
            let sql = if tries == 0 { &self.sql } else { &self.careful };
            for round in &rounds {
                let settled = self.settle_round((held, sql), round, now, &mut progress).await;
                // The attempt is in the history already, which is no reason to refuse.
                settled.map_err(|failure| {
                    if tries == 0 && failure.is_duplicate() { Failure::Raced } else { failure }
                })?;
            }
            if !is_one {
                held.commit().await?;
            }
            let waiting = self.waiting(held, &progress.jobs, false).await?;
            Ok((progress, waiting))
        })?;
        for (queue, due_at) in progress.due {
            self.tell(Line::Queue(Queue::from(queue)), due_at);
        }
        self.tell_turns(waiting);
        Ok(progress.answers)
    }

    /// Settles one attempt inside a transaction that somebody else has opened; also answers the job of
    /// which a message no longer runs.
    pub(crate) async fn settle_within(
        &self,
        held: &impl Driver,
        settlements: &[Settlement; 1],
        now: Timestamp,
    ) -> Result<(Settled, HashSet<String>), Failure> {
        let mut progress =
            Progress { answers: vec![Settled::Lost], jobs: HashSet::new(), due: HashMap::new() };
        let round: Vec<Placed<'_>> = settlements.iter().enumerate().collect();
        self.settle_round((held, &self.careful), &round, now, &mut progress).await?;
        Ok((progress.answers[0], progress.jobs))
    }

    /// One statement for each kind of decision and each thousand.
    async fn settle_round(
        &self,
        on: (&impl Driver, &Statements),
        round: &[Placed<'_>],
        now: Timestamp,
        progress: &mut Progress,
    ) -> Result<(), Failure> {
        for some in round.chunks(CHUNK) {
            let of = |kind: Kind| -> Vec<Placed<'_>> {
                some.iter().copied().filter(|(_, one)| Kind::of(&one.verdict) == kind).collect()
            };
            let (finished, again, dead) = (of(Kind::Finished), of(Kind::Again), of(Kind::Dead));
            if !finished.is_empty() {
                settle_finished(on, &finished, now, progress).await?;
            }
            if !again.is_empty() {
                settle_again(on, &again, progress).await?;
            }
            if !dead.is_empty() {
                settle_dead(on, &dead, now, progress).await?;
            }
        }
        Ok(())
    }

    /// The queues in which something may have waited for jobs that no longer run.
    pub(crate) async fn waiting(
        &self,
        held: &Session<'_>,
        jobs: &HashSet<String>,
        all: bool,
    ) -> Result<HashSet<String>, Failure> {
        if jobs.is_empty() {
            return Ok(HashSet::new());
        }
        let jobs: Vec<&str> = jobs.iter().map(String::as_str).collect();
        let params: [Param<'_>; 2] = [(&jobs, Type::TEXT_ARRAY), (&all, Type::BOOL)];
        let rows = held.query(&self.sql.waiting_queues, &params).await?;
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }

    /// Somebody's turn may have come; since when they waited nobody knows.
    pub(crate) fn tell_turns(self: &Arc<Self>, queues: HashSet<String>) {
        for queue in queues {
            self.tell(Line::Queue(Queue::from(queue)), Micros::MIN.0);
        }
    }
}

async fn settle_finished(
    (held, sql): (&impl Driver, &Statements),
    batch: &[Placed<'_>],
    now: Timestamp,
    progress: &mut Progress,
) -> Result<(), Failure> {
    let attempts = Attempts::of(batch);
    let states: Vec<i16> = batch
        .iter()
        .map(|(_, one)| match one.verdict {
            Verdict::Cancelled => State::Cancelled.code(),
            _ => State::Done.code(),
        })
        .collect();
    let now = Micros(micros(now));
    let mut params = attempts.params();
    params.push((&states, Type::INT2_ARRAY));
    params.push((&now, Type::TIMESTAMPTZ));
    for row in held.query(&sql.settle_finished, &params).await? {
        progress.applied(batch, &row)?;
    }
    Ok(())
}

async fn settle_dead(
    (held, sql): (&impl Driver, &Statements),
    batch: &[Placed<'_>],
    now: Timestamp,
    progress: &mut Progress,
) -> Result<(), Failure> {
    let attempts = Attempts::of(batch);
    let (mut reasons, mut errors) = (Vec::new(), Vec::new());
    for (_, one) in batch {
        if let Verdict::Dead { reason, error } = &one.verdict {
            reasons.push(reason.code());
            errors.push(error.as_deref().map(without_nul));
        }
    }
    let now = Micros(micros(now));
    let mut params = attempts.params();
    params.push((&reasons, Type::INT2_ARRAY));
    params.push((&errors, Type::TEXT_ARRAY));
    params.push((&now, Type::TIMESTAMPTZ));
    for row in held.query(&sql.settle_dead, &params).await? {
        progress.applied(batch, &row)?;
    }
    Ok(())
}

async fn settle_again(
    (held, sql): (&impl Driver, &Statements),
    batch: &[Placed<'_>],
    progress: &mut Progress,
) -> Result<(), Failure> {
    let ended = Attempts::of(batch);
    let mut due = Vec::new();
    let (mut attempts, mut all_crashes, mut all_snoozes) = (Vec::new(), Vec::new(), Vec::new());
    let mut errors = Vec::new();
    for (_, one) in batch {
        if let Verdict::Again { due_at, attempt, crashes, snoozes, error, .. } = &one.verdict {
            due.push(Micros(micros_up(*due_at)));
            attempts.push(column(*attempt));
            all_crashes.push(column(*crashes));
            all_snoozes.push(column(*snoozes));
            errors.push(error.as_deref().map(without_nul));
        }
    }
    let mut params = ended.params();
    params.push((&due, Type::TIMESTAMPTZ_ARRAY));
    params.push((&attempts, Type::INT4_ARRAY));
    params.push((&all_crashes, Type::INT4_ARRAY));
    params.push((&all_snoozes, Type::INT4_ARRAY));
    params.push((&errors, Type::TEXT_ARRAY));
    for row in held.query(&sql.settle_again, &params).await? {
        let index = Progress::index(&row, batch.len())?;
        if row.cell::<bool>(3)? {
            progress.answers[batch[index].0] = Settled::CancelRequested;
            continue;
        }
        progress.applied(batch, &row)?;
        let queue: String = row.cell(2)?;
        let first = progress.due.entry(queue).or_insert(due[index].0);
        *first = due[index].0.min(*first);
    }
    Ok(())
}

impl Progress {
    fn index(row: &impl Cells, length: usize) -> Result<usize, Failure> {
        let number: i64 = row.cell(0)?;
        let index = usize::try_from(number - 1).ok().filter(|index| *index < length);
        index.ok_or_else(|| {
            Failure::Answer(punctual::Error::internal(
                "a settlement was answered that was not asked",
            ))
        })
    }

    /// A row came back: its settlement took effect.
    fn applied(&mut self, batch: &[Placed<'_>], row: &impl Cells) -> Result<(), Failure> {
        let index = Self::index(row, batch.len())?;
        self.answers[batch[index].0] = Settled::Applied;
        if let Some(job) = row.cell::<Option<String>>(1)? {
            self.jobs.insert(job);
        }
        Ok(())
    }
}
