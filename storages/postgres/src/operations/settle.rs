//! Settle: applies decisions and stores their executions in one step, each only with the current token.
//! Decisions of one kind share one statement; several kinds share a transaction.

use std::collections::BTreeSet;
use std::sync::Arc;

use punctual::Result;
use punctual::backend::policy::Verdict;
use punctual::backend::storage::{EnqueueResult, Entry, SettleResult, Settlement};
use punctual::jiff::Timestamp;
use punctual::model::{MessageState, Queue};
use punctual_columns::code::Code;
use punctual_columns::instant::{micros, micros_up};
use punctual_columns::message::count_to_column;
use punctual_columns::without_nul;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::driver::{Cells, Driver};
use crate::error::StorageError;
use crate::inner::{Inner, attempt};
use crate::operations::enqueue::CHUNK;
use crate::operations::settlements::{AttemptArrays, IndexedSettlement, Kind, is_uniform, rounds};
use crate::pending_notifications::PendingNotifications;
use crate::statements::{Sql, Statements};
use crate::value::Micros;

/// Result of a batch of decisions so far.
#[derive(Default)]
struct SettleProgress {
    results: Vec<SettleResult>,
    notifications: PendingNotifications,
    /// Batches of which a message is no longer alive; none on the fast path, which skips messages of batches.
    batches: Option<BTreeSet<Uuid>>,
}

impl Inner {
    pub(crate) async fn settle(
        self: &Arc<Self>,
        settlements: &[Settlement],
        now: Timestamp,
    ) -> Result<Vec<SettleResult>> {
        let mut rounds = rounds(settlements);
        let is_one = rounds.len() == 1 && settlements.len() <= CHUNK && is_uniform(settlements);
        let mut progress = SettleProgress::new(settlements.len());
        if is_one {
            progress = self.settle_fast(&rounds[0], now, settlements.len()).await?;
            // Unsettled rows are either members of a batch, which the careful path settles, or lost leases.
            let results = &progress.results;
            rounds[0].retain(|(place, one)| {
                results[*place] == SettleResult::Lost && Kind::of(&one.verdict) != Kind::Again
            });
            rounds.retain(|round| !round.is_empty());
        }
        if !rounds.is_empty() {
            progress.add(self.settle_carefully(settlements, &rounds, now).await?);
        }
        self.notify_committed(progress.notifications).await;
        Ok(progress.results)
    }

    /// Settles with one statement and no transaction. Skips messages of batches.
    async fn settle_fast(
        &self,
        round: &[IndexedSettlement<'_>],
        now: Timestamp,
        count: usize,
    ) -> Result<SettleProgress> {
        attempt!(self, |session, tries| async {
            let mut progress = SettleProgress::new(count);
            self.settle_round((session, self.settling(tries)), round, now, &mut progress)
                .await
                .map_err(|failure| retry_carefully(failure, tries))?;
            Ok(progress)
        })
    }

    /// Settles in a transaction: decisions of several kinds, follow-up messages, and messages of batches.
    async fn settle_carefully(
        &self,
        settlements: &[Settlement],
        rounds: &[Vec<IndexedSettlement<'_>>],
        now: Timestamp,
    ) -> Result<SettleProgress> {
        attempt!(self, |session, tries| async {
            let mut progress = SettleProgress {
                batches: Some(BTreeSet::new()),
                ..SettleProgress::new(settlements.len())
            };
            session.begin().await?;
            for round in rounds {
                self.settle_round((session, self.settling(tries)), round, now, &mut progress)
                    .await
                    .map_err(|failure| retry_carefully(failure, tries))?;
            }
            self.follow(session, settlements, (now, tries), &mut progress).await?;
            session.commit().await?;
            Ok(progress)
        })
    }

    /// Returns the statements for a first try, or those for a repeated one, whose attempt may be in the
    /// history.
    fn settling(&self, tries: u32) -> &Statements {
        if tries == 0 { &self.sql } else { &self.careful }
    }

    /// Settles one attempt inside a transaction of the application; also returns the notifications to send
    /// after its commit.
    pub(crate) async fn settle_within(
        &self,
        session: &impl Driver,
        settlements: &[Settlement; 1],
        now: Timestamp,
    ) -> Result<(SettleResult, PendingNotifications), StorageError> {
        let mut progress =
            SettleProgress { batches: Some(BTreeSet::new()), ..SettleProgress::new(1) };
        let round: Vec<IndexedSettlement<'_>> = settlements.iter().enumerate().collect();
        self.settle_round((session, &self.careful), &round, now, &mut progress).await?;
        self.follow(session, settlements, (now, 0), &mut progress).await?;
        Ok((progress.results[0], progress.notifications))
    }

    /// Stores the follow-up messages of applied settlements, and ends the batches without alive messages.
    async fn follow(
        &self,
        session: &impl Driver,
        settlements: &[Settlement],
        (now, tries): (Timestamp, u32),
        progress: &mut SettleProgress,
    ) -> Result<(), StorageError> {
        let applied = settlements.iter().zip(&progress.results);
        let applied = applied.filter(|(_, result)| **result == SettleResult::Applied);
        let entries: Vec<Entry> = applied
            .flat_map(|(one, _)| &one.then)
            .map(|message| Entry { message: Arc::clone(message), replace: false })
            .collect();
        if !entries.is_empty() {
            let stored = self.store(session, &entries, tries, now).await?;
            for (entry, result) in entries.iter().zip(&stored.results) {
                if *result == EnqueueResult::Stored {
                    progress
                        .notifications
                        .add_due(&entry.message.queue, micros_up(entry.message.due_at));
                }
            }
            progress.notifications.add_due_queues(stored.freed);
        }
        let batches = progress.batches.take().unwrap_or_default();
        progress.notifications.add_due_queues(self.end_batches(session, &batches).await?);
        Ok(())
    }

    /// Runs one statement for each kind of decision and each thousand settlements.
    async fn settle_round(
        &self,
        (session, sql): (&impl Driver, &Statements),
        round: &[IndexedSettlement<'_>],
        now: Timestamp,
        progress: &mut SettleProgress,
    ) -> Result<(), StorageError> {
        for some in round.chunks(CHUNK) {
            let of = |kind: Kind| -> Vec<IndexedSettlement<'_>> {
                some.iter().copied().filter(|(_, one)| Kind::of(&one.verdict) == kind).collect()
            };
            let (finished, again, dead) = (of(Kind::Finished), of(Kind::Again), of(Kind::Dead));
            if !finished.is_empty() {
                settle_ended((session, &sql.settle_finished), &finished, now, progress).await?;
            }
            if !again.is_empty() {
                settle_again((session, &sql.settle_again), &again, progress).await?;
            }
            if !dead.is_empty() {
                settle_ended((session, &sql.settle_dead), &dead, now, progress).await?;
            }
        }
        Ok(())
    }
}

/// Makes a duplicate on the first try a retry: the attempt may be in the history already, which is no failure.
fn retry_carefully(failure: StorageError, tries: u32) -> StorageError {
    if tries == 0 && failure.is_unique_violation() { StorageError::Raced } else { failure }
}

/// Settles messages that end: done or cancelled by one statement, dead by the other.
async fn settle_ended(
    (session, sql): (&impl Driver, &Sql),
    batch: &[IndexedSettlement<'_>],
    now: Timestamp,
    progress: &mut SettleProgress,
) -> Result<(), StorageError> {
    let attempts = AttemptArrays::of(batch);
    let mut codes: Vec<i16> = Vec::new();
    let mut errors = Vec::new();
    for (_, one) in batch {
        match &one.verdict {
            Verdict::Dead { reason, error } => {
                codes.push(reason.code());
                errors.push(error.as_deref().map(without_nul));
            }
            Verdict::Cancelled => codes.push(MessageState::Cancelled.code()),
            Verdict::Done | Verdict::Again { .. } => codes.push(MessageState::Done.code()),
        }
    }
    let (now, includes_batches) = (Micros(micros(now)), progress.batches.is_some());
    let mut params = attempts.params();
    params.push((&codes, Type::INT2_ARRAY));
    params.push((&now, Type::TIMESTAMPTZ));
    params.push((&includes_batches, Type::BOOL));
    if !errors.is_empty() {
        params.push((&errors, Type::TEXT_ARRAY));
    }
    for row in session.query(sql, &params).await? {
        progress.ended(batch, &row)?;
    }
    Ok(())
}

async fn settle_again(
    (session, sql): (&impl Driver, &Sql),
    batch: &[IndexedSettlement<'_>],
    progress: &mut SettleProgress,
) -> Result<(), StorageError> {
    let ended = AttemptArrays::of(batch);
    let mut due = Vec::new();
    let (mut attempts, mut all_crashes, mut all_snoozes) = (Vec::new(), Vec::new(), Vec::new());
    let mut errors = Vec::new();
    for (_, one) in batch {
        if let Verdict::Again { due_at, attempt, crashes, snoozes, error, .. } = &one.verdict {
            due.push(Micros(micros_up(*due_at)));
            attempts.push(count_to_column(*attempt));
            all_crashes.push(count_to_column(*crashes));
            all_snoozes.push(count_to_column(*snoozes));
            errors.push(error.as_deref().map(without_nul));
        }
    }
    let mut params = ended.params();
    params.push((&due, Type::TIMESTAMPTZ_ARRAY));
    params.push((&attempts, Type::INT4_ARRAY));
    params.push((&all_crashes, Type::INT4_ARRAY));
    params.push((&all_snoozes, Type::INT4_ARRAY));
    params.push((&errors, Type::TEXT_ARRAY));
    for row in session.query(sql, &params).await? {
        let index = SettleProgress::index(&row, batch.len())?;
        if row.cell::<bool>(4)? {
            progress.results[batch[index].0] = SettleResult::CancelRequested;
            continue;
        }
        progress.applied(batch, &row)?;
        progress.notifications.add_due(&Queue::from(row.cell::<String>(3)?), due[index].0);
    }
    Ok(())
}

impl SettleProgress {
    fn new(count: usize) -> Self {
        Self { results: vec![SettleResult::Lost; count], ..Self::default() }
    }

    /// Adds the results of settlements that the fast path left unsettled.
    fn add(&mut self, other: Self) {
        for (result, later) in self.results.iter_mut().zip(other.results) {
            if *result == SettleResult::Lost {
                *result = later;
            }
        }
        self.notifications.add(other.notifications);
    }

    fn index(row: &impl Cells, count: usize) -> Result<usize, StorageError> {
        let number: i64 = row.cell(0)?;
        let index = usize::try_from(number - 1).ok().filter(|index| *index < count);
        index.ok_or_else(|| {
            StorageError::Mapped(punctual::Error::internal(
                "the server returned a settlement that was not requested",
            ))
        })
    }

    /// Records that the settlement of a returned row took effect.
    fn applied(
        &mut self,
        batch: &[IndexedSettlement<'_>],
        row: &impl Cells,
    ) -> Result<(), StorageError> {
        let index = Self::index(row, batch.len())?;
        self.results[batch[index].0] = SettleResult::Applied;
        self.notifications.turns.jobs.extend(row.cell::<Option<String>>(1)?);
        self.notifications.turns.lanes.extend(row.cell::<Option<String>>(2)?);
        Ok(())
    }

    /// Records the same for a message that is no longer alive.
    fn ended(
        &mut self,
        batch: &[IndexedSettlement<'_>],
        row: &impl Cells,
    ) -> Result<(), StorageError> {
        self.applied(batch, row)?;
        if let Some(batches) = &mut self.batches {
            batches.extend(row.cell::<Option<Uuid>>(3)?);
        }
        Ok(())
    }
}
