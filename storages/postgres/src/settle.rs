//! Settle: finished decisions and their executions in one step, each only by the current token.
//! Decisions of one kind go in one statement; several kinds in one transaction.

use std::collections::BTreeSet;
use std::sync::Arc;

use punctual::Result;
use punctual::jiff::Timestamp;
use punctual::model::{Queue, State};
use punctual::policy::Verdict;
use punctual::storage::{Enqueued, Entry, Settled, Settlement};
use punctual_rows::code::Code;
use punctual_rows::instant::{micros, micros_up};
use punctual_rows::message::column;
use punctual_rows::without_nul;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::commits::Tidings;
use crate::driver::{Cells, Driver};
use crate::enqueue::CHUNK;
use crate::failure::Failure;
use crate::inner::{Inner, attempt};
use crate::settlements::{Attempts, Kind, Placed, is_alike, rounds};
use crate::statements::Statements;
use crate::value::Micros;

/// What a batch of decisions has led to so far.
#[derive(Default)]
struct Progress {
    answers: Vec<Settled>,
    tidings: Tidings,
    /// Batches of which a message is no longer alive; none when messages of batches are left alone.
    batches: Option<BTreeSet<Uuid>>,
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
        let mut rounds = rounds(settlements);
        let is_one = rounds.len() == 1 && settlements.len() <= CHUNK && is_alike(settlements);
        let mut progress = Progress::new(settlements.len());
        if is_one {
            progress = self.settle_quickly(&rounds[0], now, settlements.len()).await?;
            // What ended nothing may be of a batch, whose end is seen to with care; or it is lost.
            let answers = &progress.answers;
            rounds[0].retain(|(place, one)| {
                answers[*place] == Settled::Lost && Kind::of(&one.verdict) != Kind::Again
            });
            rounds.retain(|round| !round.is_empty());
        }
        if !rounds.is_empty() {
            progress.add(self.settle_carefully(settlements, &rounds, now).await?);
        }
        self.tell_all(progress.tidings.due);
        self.tell_turns_of(&progress.tidings.turns).await;
        Ok(progress.answers)
    }

    /// One statement, which is a step of its own. Messages of batches are left alone.
    async fn settle_quickly(
        &self,
        round: &[Placed<'_>],
        now: Timestamp,
        count: usize,
    ) -> Result<Progress> {
        attempt!(self, |held, tries| async {
            let mut progress = Progress::new(count);
            self.settle_round((held, self.settling(tries)), round, now, &mut progress)
                .await
                .map_err(|failure| again_with_care(failure, tries))?;
            Ok(progress)
        })
    }

    /// A transaction for decisions of several kinds, for what follows, and for messages of batches.
    async fn settle_carefully(
        &self,
        settlements: &[Settlement],
        rounds: &[Vec<Placed<'_>>],
        now: Timestamp,
    ) -> Result<Progress> {
        attempt!(self, |held, tries| async {
            let mut progress =
                Progress { batches: Some(BTreeSet::new()), ..Progress::new(settlements.len()) };
            held.begin().await?;
            for round in rounds {
                self.settle_round((held, self.settling(tries)), round, now, &mut progress)
                    .await
                    .map_err(|failure| again_with_care(failure, tries))?;
            }
            self.follow(held, settlements, (now, tries), &mut progress).await?;
            held.commit().await?;
            Ok(progress)
        })
    }

    /// The statements for a first try, and for one after which the attempt may be in the history.
    fn settling(&self, tries: u32) -> &Statements {
        if tries == 0 { &self.sql } else { &self.careful }
    }

    /// Settles one attempt inside a transaction that somebody else has opened; also answers what there is
    /// to tell once that has committed.
    pub(crate) async fn settle_within(
        &self,
        held: &impl Driver,
        settlements: &[Settlement; 1],
        now: Timestamp,
    ) -> Result<(Settled, Tidings), Failure> {
        let mut progress = Progress { batches: Some(BTreeSet::new()), ..Progress::new(1) };
        let round: Vec<Placed<'_>> = settlements.iter().enumerate().collect();
        self.settle_round((held, &self.careful), &round, now, &mut progress).await?;
        self.follow(held, settlements, (now, 0), &mut progress).await?;
        Ok((progress.answers[0], progress.tidings))
    }

    /// Stores what follows what was settled, and ends the batches that have nobody left.
    async fn follow(
        &self,
        held: &impl Driver,
        settlements: &[Settlement],
        (now, tries): (Timestamp, u32),
        progress: &mut Progress,
    ) -> Result<(), Failure> {
        let applied = settlements.iter().zip(&progress.answers);
        let applied = applied.filter(|(_, answer)| **answer == Settled::Applied);
        let entries: Vec<Entry> = applied
            .flat_map(|(one, _)| &one.then)
            .map(|message| Entry { message: Arc::clone(message), replace: false })
            .collect();
        if !entries.is_empty() {
            let stored = self.store(held, &entries, tries, now).await?;
            for (entry, answer) in entries.iter().zip(&stored.answers) {
                if *answer == Enqueued::Stored {
                    progress.tidings.is_due(&entry.message.queue, micros_up(entry.message.due_at));
                }
            }
            progress.tidings.are_due(stored.freed);
        }
        let batches = progress.batches.take().unwrap_or_default();
        progress.tidings.are_due(self.end_batches(held, &batches).await?);
        Ok(())
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
}

/// The attempt may be in the history already, which is no reason to refuse.
fn again_with_care(failure: Failure, tries: u32) -> Failure {
    if tries == 0 && failure.is_duplicate() { Failure::Raced } else { failure }
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
    let with_batches = progress.batches.is_some();
    params.push((&now, Type::TIMESTAMPTZ));
    params.push((&with_batches, Type::BOOL));
    for row in held.query(&sql.settle_finished, &params).await? {
        progress.ended(batch, &row)?;
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
    let with_batches = progress.batches.is_some();
    params.push((&now, Type::TIMESTAMPTZ));
    params.push((&with_batches, Type::BOOL));
    for row in held.query(&sql.settle_dead, &params).await? {
        progress.ended(batch, &row)?;
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
        if row.cell::<bool>(4)? {
            progress.answers[batch[index].0] = Settled::CancelRequested;
            continue;
        }
        progress.applied(batch, &row)?;
        progress.tidings.is_due(&Queue::from(row.cell::<String>(3)?), due[index].0);
    }
    Ok(())
}

impl Progress {
    fn new(count: usize) -> Self {
        Self { answers: vec![Settled::Lost; count], ..Self::default() }
    }

    /// What those came to that were lost before.
    fn add(&mut self, other: Self) {
        for (answer, later) in self.answers.iter_mut().zip(other.answers) {
            if *answer == Settled::Lost {
                *answer = later;
            }
        }
        self.tidings.add(other.tidings);
    }

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
        self.tidings.turns.jobs.extend(row.cell::<Option<String>>(1)?);
        self.tidings.turns.lanes.extend(row.cell::<Option<String>>(2)?);
        Ok(())
    }

    /// The same for one that is no longer alive.
    fn ended(&mut self, batch: &[Placed<'_>], row: &impl Cells) -> Result<(), Failure> {
        self.applied(batch, row)?;
        if let Some(batches) = &mut self.batches {
            batches.extend(row.cell::<Option<Uuid>>(3)?);
        }
        Ok(())
    }
}
