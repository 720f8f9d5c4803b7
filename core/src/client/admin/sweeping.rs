//! Commands for many messages at once: count what matches first, then redrive, discard or cancel it, page
//! by page and never more than asked for. Each message is its own command, so a sweep that broke off, or
//! ran twice, did nothing twice: what it has dealt with matches no more.

use futures_util::future::try_join_all;

use super::Admin;
use crate::error::{Error, Result};
use crate::inspect::{MessageFilter, PAGE_LIMIT_MAX, PageRequest};
use crate::model::{MessageId, MessageState};
use crate::storage::{Command, CommandResult};

/// The most messages that one call counts one by one, or commands.
pub const SWEEP_MAX: usize = 10_000;
/// How many commands are on their way at once.
const TOGETHER_MAX: usize = 32;

/// How many messages match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchCount {
    /// How many; with `more` at least that many.
    pub count: u64,
    /// Whether counting stopped at [`SWEEP_MAX`].
    pub more: bool,
}

/// What a command for many came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BulkResult {
    /// So many are done.
    pub applied: u64,
    /// So many handlers were asked to stop; it may take a moment.
    pub requested: u64,
    /// So many were in a state by then that does not allow it, or gone.
    pub refused: u64,
    /// Whether more match than were to be dealt with; ask again for the rest.
    pub more: bool,
}

/// What is done to each message.
#[derive(Clone, Copy)]
enum Act {
    Redrive,
    Discard,
    Cancel,
}

impl Act {
    fn name(self) -> &'static str {
        match self {
            Self::Redrive => "redrive",
            Self::Discard => "delete",
            Self::Cancel => "cancel",
        }
    }

    /// The states it is about when a filter names none, and all that it may be about.
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

    /// The filter with the states it is about; one that names others is refused.
    fn narrowed(self, filter: MessageFilter) -> Result<MessageFilter> {
        let (usual, possible) = self.states();
        if filter.states.is_empty() {
            return Ok(MessageFilter { states: usual.to_vec(), ..filter });
        }
        match filter.states.iter().find(|state| !possible.contains(state)) {
            None => Ok(filter),
            Some(state) => {
                let possible: Vec<&str> = possible.iter().map(|state| state.as_str()).collect();
                Err(Error::invalid(format!(
                    "a {} message is not for {}; ask for {}",
                    state.as_str(),
                    self.name(),
                    possible.join(", ")
                )))
            }
        }
    }
}

impl Admin {
    /// How many messages match: exactly where only queue and states are asked for, else up to
    /// [`SWEEP_MAX`]. Ask before a command for many.
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
        let (found, more) = self.matching(filter, SWEEP_MAX).await?;
        Ok(MatchCount { count: found.len() as u64, more })
    }

    /// Sends finished messages again that match, dead letters unless the filter names other states;
    /// at most `limit`, newest first. Their attempts start anew.
    pub async fn redrive_all(&self, filter: MessageFilter, limit: usize) -> Result<BulkResult> {
        self.sweep(Act::Redrive, filter, limit).await
    }

    /// Deletes dead letters that match, with their history; at most `limit`, newest first.
    pub async fn discard_all(&self, filter: MessageFilter, limit: usize) -> Result<BulkResult> {
        self.sweep(Act::Discard, filter, limit).await
    }

    /// Stops messages that match: pending ones at once, running ones by asking their handlers; at most
    /// `limit`, newest first.
    pub async fn cancel_all(&self, filter: MessageFilter, limit: usize) -> Result<BulkResult> {
        self.sweep(Act::Cancel, filter, limit).await
    }

    async fn sweep(&self, act: Act, filter: MessageFilter, limit: usize) -> Result<BulkResult> {
        let filter = act.narrowed(filter)?;
        if !(1..=SWEEP_MAX).contains(&limit) {
            return Err(Error::invalid(format!(
                "the limit {limit} must be between 1 and {SWEEP_MAX}; repeat the call for more"
            )));
        }
        let (found, more) = self.matching(&filter, limit).await?;
        let mut swept = BulkResult { more, ..BulkResult::default() };
        for some in found.chunks(TOGETHER_MAX) {
            let commands = some.iter().map(|id| self.act(act, *id));
            for answer in try_join_all(commands).await? {
                match answer {
                    CommandResult::Applied(_) => swept.applied += 1,
                    CommandResult::Requested => swept.requested += 1,
                    CommandResult::Refused(_) | CommandResult::Unknown => swept.refused += 1,
                }
            }
        }
        Ok(swept)
    }

    async fn act(&self, act: Act, id: MessageId) -> Result<CommandResult> {
        let command = match act {
            Act::Redrive => Command::Redrive { id, due_at: self.process.now() },
            Act::Discard => Command::Discard(id),
            Act::Cancel => Command::Cancel(id),
        };
        self.command(command, id, act.name()).await
    }

    /// The ids of what matches, newest first, and whether there is more.
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
