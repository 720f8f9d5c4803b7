//! Bulk commands: count the messages that match a filter, then redrive, discard or cancel them, page by page
//! and up to a limit. Each message is its own command, so an interrupted bulk command can be repeated: messages
//! it has already changed no longer match.

use futures_util::future::try_join_all;

use super::Admin;
use crate::error::{Error, Result};
use crate::inspect::{MessageFilter, PAGE_LIMIT_MAX, PageRequest};
use crate::model::{MessageId, MessageState};
use crate::storage::{Command, CommandResult};

/// The most messages that one call counts one by one, or changes.
pub const BULK_MAX: usize = 10_000;
/// Number of concurrent commands.
const CONCURRENCY: usize = 32;

/// Number of messages that match a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchCount {
    /// The number; a lower bound when `more` is set.
    pub count: u64,
    /// Whether counting stopped at [`BULK_MAX`].
    pub more: bool,
}

/// The result of a bulk command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BulkResult {
    /// Number of messages that were changed.
    pub applied: u64,
    /// Number of handlers that were asked to stop; it may take a moment.
    pub requested: u64,
    /// Number of messages whose state no longer allowed the command, or that no longer existed.
    pub refused: u64,
    /// Whether more messages match than the limit; repeat the call for the rest.
    pub more: bool,
}

/// The command for each message.
#[derive(Clone, Copy)]
enum BulkCommand {
    Redrive,
    Discard,
    Cancel,
}

impl BulkCommand {
    fn name(self) -> &'static str {
        match self {
            Self::Redrive => "redrive",
            Self::Discard => "delete",
            Self::Cancel => "cancel",
        }
    }

    /// Returns the states to which it applies by default, and all states to which it may apply.
    fn states(self) -> (&'static [MessageState], &'static [MessageState]) {
        match self {
            Self::Redrive => (
                &[MessageState::Dead],
                &[MessageState::Dead, MessageState::Done, MessageState::Cancelled],
            ),
            Self::Discard => (&[MessageState::Dead], &[MessageState::Dead]),
            Self::Cancel => {
                let alive = &[MessageState::Pending, MessageState::Running];
                (alive, alive)
            }
        }
    }

    /// Returns the filter with states; fails when it names a state to which the command cannot apply.
    fn narrowed(self, filter: MessageFilter) -> Result<MessageFilter> {
        let (default, possible) = self.states();
        if filter.states.is_empty() {
            return Ok(MessageFilter { states: default.to_vec(), ..filter });
        }
        match filter.states.iter().find(|state| !possible.contains(state)) {
            None => Ok(filter),
            Some(state) => {
                let possible: Vec<&str> = possible.iter().map(|state| state.as_str()).collect();
                Err(Error::invalid(format!(
                    "cannot {} {} messages; use the states {}",
                    self.name(),
                    state.as_str(),
                    possible.join(", ")
                )))
            }
        }
    }
}

impl Admin {
    /// Returns the number of messages that match, to check a filter before a bulk command. The number is exact
    /// when the filter names only a queue and states, else it is counted up to [`BULK_MAX`].
    pub async fn count(&self, filter: &MessageFilter) -> Result<MatchCount> {
        let MessageFilter { states, queue, topic, key, job, batch, planned } = filter;
        let is_counted = topic.is_none() && key.is_none() && job.is_none() && batch.is_none();
        if is_counted && !planned {
            let counts = self.counts().await?.messages;
            let matching = counts.iter().filter(|((of, state), _)| {
                queue.as_ref().is_none_or(|queue| queue == of)
                    && (states.is_empty() || states.contains(state))
            });
            return Ok(MatchCount { count: matching.map(|(_, count)| count).sum(), more: false });
        }
        let (found, more) = self.matching(filter, BULK_MAX).await?;
        Ok(MatchCount { count: found.len() as u64, more })
    }

    /// Makes up to `limit` finished messages that match due now, newest first; dead letters unless the filter
    /// names other states. Their attempts start again at 1.
    pub async fn redrive_all(&self, filter: MessageFilter, limit: usize) -> Result<BulkResult> {
        self.bulk(BulkCommand::Redrive, filter, limit).await
    }

    /// Deletes up to `limit` dead letters that match, with their history, newest first.
    pub async fn discard_all(&self, filter: MessageFilter, limit: usize) -> Result<BulkResult> {
        self.bulk(BulkCommand::Discard, filter, limit).await
    }

    /// Cancels up to `limit` messages that match, newest first: pending ones immediately, running ones by a request
    /// to their handlers.
    pub async fn cancel_all(&self, filter: MessageFilter, limit: usize) -> Result<BulkResult> {
        self.bulk(BulkCommand::Cancel, filter, limit).await
    }

    async fn bulk(
        &self,
        command: BulkCommand,
        filter: MessageFilter,
        limit: usize,
    ) -> Result<BulkResult> {
        let filter = command.narrowed(filter)?;
        if !(1..=BULK_MAX).contains(&limit) {
            return Err(Error::invalid(format!(
                "the limit {limit} must be between 1 and {BULK_MAX}; repeat the call for more"
            )));
        }
        let (found, more) = self.matching(&filter, limit).await?;
        let mut total = BulkResult { more, ..BulkResult::default() };
        for chunk in found.chunks(CONCURRENCY) {
            let commands = chunk.iter().map(|id| self.bulk_step(command, *id));
            for result in try_join_all(commands).await? {
                match result {
                    CommandResult::Applied(_) => total.applied += 1,
                    CommandResult::Requested => total.requested += 1,
                    CommandResult::Refused(_) | CommandResult::Unknown => total.refused += 1,
                }
            }
        }
        Ok(total)
    }

    async fn bulk_step(&self, bulk: BulkCommand, id: MessageId) -> Result<CommandResult> {
        let command = match bulk {
            BulkCommand::Redrive => Command::Redrive { id, due_at: self.process.now() },
            BulkCommand::Discard => Command::Discard(id),
            BulkCommand::Cancel => Command::Cancel(id),
        };
        self.command(command, id, bulk.name()).await
    }

    /// Returns the ids of up to `limit` messages that match, newest first, and whether there are more.
    async fn matching(
        &self,
        filter: &MessageFilter,
        limit: usize,
    ) -> Result<(Vec<MessageId>, bool)> {
        let mut found = Vec::new();
        let mut page = PageRequest::first(PAGE_LIMIT_MAX.min(limit));
        loop {
            let paged = self.messages(filter.clone(), page).await?;
            found.extend(paged.rows.iter().map(|record| record.message.id));
            let more = found.len() > limit || paged.next.is_some();
            found.truncate(limit);
            match paged.next {
                Some(next) if found.len() < limit => {
                    page = PageRequest { after: Some(next), ..page }
                }
                _ => return Ok((found, more)),
            }
        }
    }
}
