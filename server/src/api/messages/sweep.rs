//! One command for many messages: find them, then command each by itself, so that a sweep which broke off
//! or ran twice did nothing twice.

use futures_util::future::try_join_all;
use jiff::Timestamp;
use punctual::client::SWEEP_MAX;
use punctual::model::{Assignment, MessageId, MessageRecord, MessageState};
use punctual::storage::{Command, CommandResult};
use punctual::{Event, Result};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::Wanted;
use super::acting::noted;
use crate::app::App;
use crate::idempotency::remember_removed;
use crate::problem::{Answer, Problem};

/// How many commands are on their way at once.
pub(crate) const TOGETHER_MAX: usize = 32;
/// How many messages a sweep is about when nobody says.
const LIMIT_DEFAULT: usize = 1_000;

/// What is done to each message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Sends it again.
    Redrive,
    /// Stops it.
    Cancel,
    /// Makes it due at another instant.
    Reschedule(Timestamp),
    /// Puts it into another queue, or makes it more or less urgent.
    Reassign(Assignment),
    /// Deletes a dead letter.
    Discard,
    /// Deletes it without a trace, unless it is running.
    Delete,
}

impl Act {
    fn as_str(&self) -> &'static str {
        match self {
            Self::Redrive => "redrive",
            Self::Cancel => "cancel",
            Self::Reschedule(_) => "reschedule",
            Self::Reassign(_) => "reassign",
            Self::Discard => "discard",
            Self::Delete => "delete",
        }
    }

    /// What the audit trail calls it.
    pub(crate) fn audited(&self) -> &'static str {
        match self {
            Self::Redrive => "messages.redrive",
            Self::Cancel => "messages.cancel",
            Self::Reschedule(_) => "messages.reschedule",
            Self::Reassign(_) => "messages.reassign",
            Self::Discard => "messages.discard",
            Self::Delete => "messages.delete",
        }
    }

    /// Whether it is for a message besides its state: what waits in a line of the engine's own stays there.
    pub(crate) fn takes(&self, record: &MessageRecord) -> bool {
        match self {
            Self::Reassign(to) => to.queue.is_none() || !record.message.queue.is_reserved(),
            _ => true,
        }
    }

    /// What it changes messages to, for the audit trail.
    pub(crate) fn noted(&self) -> Value {
        match self {
            Self::Reschedule(due_at) => json!({ "due_at": due_at }),
            Self::Reassign(to) => noted(to),
            _ => Value::Null,
        }
    }

    /// The states it is about when a filter names none, and all that it may be about.
    fn states(&self) -> (&'static [MessageState], &'static [MessageState]) {
        const ALIVE: &[MessageState] = &[MessageState::Pending, MessageState::Running];
        const ENDED: &[MessageState] =
            &[MessageState::Dead, MessageState::Done, MessageState::Cancelled];
        const RESTING: &[MessageState] = &[
            MessageState::Pending,
            MessageState::Dead,
            MessageState::Done,
            MessageState::Cancelled,
        ];
        match self {
            Self::Redrive => (&[MessageState::Dead], ENDED),
            Self::Cancel => (ALIVE, ALIVE),
            Self::Reschedule(_) | Self::Reassign(_) => {
                (&[MessageState::Pending], &[MessageState::Pending])
            }
            Self::Discard => (&[MessageState::Dead], &[MessageState::Dead]),
            Self::Delete => (RESTING, RESTING),
        }
    }

    /// What is wanted, of the states it is about; other ones are refused.
    pub(crate) fn narrowed(&self, mut wanted: Wanted) -> Answer<Wanted> {
        let (usual, possible) = self.states();
        if wanted.filter.states.is_empty() {
            wanted.filter.states = usual.to_vec();
        }
        match wanted.filter.states.iter().find(|state| !possible.contains(state)) {
            None => Ok(wanted),
            Some(state) => {
                let possible: Vec<&str> = possible.iter().map(|state| state.as_str()).collect();
                let problem = format!(
                    "a {} message is not for {}; ask for {}",
                    state.as_str(),
                    self.as_str(),
                    possible.join(", ")
                );
                Err(Problem::refused(&problem).field("filter.state", problem))
            }
        }
    }
}

/// What a command for many came to, or would come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Swept {
    /// How many messages it is about.
    pub(crate) count: u64,
    /// So many are done; none in a dry run.
    pub(crate) applied: u64,
    /// So many handlers were asked to stop; it may take a moment.
    pub(crate) requested: u64,
    /// So many were in a state by then that does not allow it, or gone.
    pub(crate) refused: u64,
    /// Whether there may be more; ask again for the rest.
    pub(crate) more: bool,
    /// What was looked at last, when there may be more: give it as `after` to go on behind it.
    #[schema(value_type = Option<String>)]
    pub(crate) next: Option<MessageId>,
    /// Whether nothing was done.
    pub(crate) dry_run: bool,
}

/// The limit of a sweep, within its bound.
pub(crate) fn limit(limit: Option<usize>) -> Answer<usize> {
    match limit.unwrap_or(LIMIT_DEFAULT) {
        limit if (1..=SWEEP_MAX).contains(&limit) => Ok(limit),
        limit => Err(Problem::refused(format!(
            "the limit {limit} is not between 1 and {SWEEP_MAX}; repeat the call for more"
        ))
        .field("limit", format!("must be between 1 and {SWEEP_MAX}"))),
    }
}

/// Commands each of these messages.
pub(crate) async fn sweep(app: &App, act: &Act, ids: &[MessageId]) -> Result<Swept> {
    let mut swept = Swept { count: ids.len() as u64, ..Swept::default() };
    if matches!(act, Act::Delete | Act::Discard) {
        remember_removed(app, ids).await?;
    }
    for some in ids.chunks(TOGETHER_MAX) {
        for answer in try_join_all(some.iter().map(|id| command(app, act, *id))).await? {
            match answer {
                CommandResult::Applied(_) => swept.applied += 1,
                CommandResult::Requested => swept.requested += 1,
                CommandResult::Refused(_) | CommandResult::Unknown => swept.refused += 1,
            }
        }
    }
    app.node().dead_groups.forget();
    Ok(swept)
}

async fn command(app: &App, act: &Act, id: MessageId) -> Result<CommandResult> {
    let admin = app.punctual.admin();
    match act {
        Act::Redrive => admin.redrive(id).await,
        Act::Cancel => admin.cancel(id).await,
        Act::Reschedule(due_at) => admin.reschedule(id, *due_at).await,
        Act::Reassign(to) => admin.reassign(id, to.clone()).await,
        Act::Delete => admin.delete(id).await,
        Act::Discard => {
            // Only while it is dead, so that one which was sent again in the meantime stays.
            let answer = app.storage.command(Command::Discard(id), app.clock.now()).await?;
            if matches!(answer, CommandResult::Applied(_)) {
                let command = "delete";
                app.punctual.events().emit(Event::MessageCommanded { message: id, command });
            }
            Ok(answer)
        }
    }
}
