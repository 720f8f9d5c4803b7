//! Bulk commands: one command for many messages. Each message is changed by itself, so that an interrupted or repeated
//! bulk command changes nothing twice.

use futures_util::future::try_join_all;
use jiff::Timestamp;
use punctual::backend::storage::{Command, CommandResult};
use punctual::client::BULK_MAX;
use punctual::model::{Assignment, MessageId, MessageRecord, MessageState};
use punctual::{Event, Result};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::MessageSelection;
use super::actions::assignment_json;
use crate::app::App;
use crate::idempotency::remember_removed;
use crate::problem::{ApiResult, Problem};

/// Largest number of concurrent commands.
const CONCURRENT_MAX: usize = 32;
/// Default limit of messages.
const LIMIT_DEFAULT: usize = 1_000;

/// Command for each message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BulkCommand {
    /// Makes it due now, with its attempts reset.
    Redrive,
    /// Cancels it, or asks its handler to stop.
    Cancel,
    /// Changes its due time.
    Reschedule(Timestamp),
    /// Changes its queue or priority.
    Reassign(Assignment),
    /// Deletes a dead letter.
    Discard,
    /// Deletes it unless it is running, without keeping any record of it.
    Delete,
}

impl BulkCommand {
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

    /// Returns its name in the audit trail.
    pub(crate) fn audit_name(&self) -> &'static str {
        match self {
            Self::Redrive => "messages.redrive",
            Self::Cancel => "messages.cancel",
            Self::Reschedule(_) => "messages.reschedule",
            Self::Reassign(_) => "messages.reassign",
            Self::Discard => "messages.discard",
            Self::Delete => "messages.delete",
        }
    }

    /// Returns whether it applies to a message, apart from its state: messages in reserved queues keep their queue.
    pub(crate) fn applies_to(&self, record: &MessageRecord) -> bool {
        match self {
            Self::Reassign(to) => to.queue.is_none() || !record.message.queue.is_reserved(),
            _ => true,
        }
    }

    /// Returns the new values for the audit trail.
    pub(crate) fn audit_value(&self) -> Value {
        match self {
            Self::Reschedule(due_at) => json!({ "due_at": due_at }),
            Self::Reassign(to) => assignment_json(to),
            _ => Value::Null,
        }
    }

    /// Returns its default states and all states it can apply to.
    fn states(&self) -> (&'static [MessageState], &'static [MessageState]) {
        const UNFINISHED: &[MessageState] = &[MessageState::Pending, MessageState::Running];
        const FINISHED: &[MessageState] =
            &[MessageState::Dead, MessageState::Done, MessageState::Cancelled];
        const NOT_RUNNING: &[MessageState] = &[
            MessageState::Pending,
            MessageState::Dead,
            MessageState::Done,
            MessageState::Cancelled,
        ];
        match self {
            Self::Redrive => (&[MessageState::Dead], FINISHED),
            Self::Cancel => (UNFINISHED, UNFINISHED),
            Self::Reschedule(_) | Self::Reassign(_) => {
                (&[MessageState::Pending], &[MessageState::Pending])
            }
            Self::Discard => (&[MessageState::Dead], &[MessageState::Dead]),
            Self::Delete => (NOT_RUNNING, NOT_RUNNING),
        }
    }

    /// Restricts a selection to states it can apply to. Fails when the selection names other ones.
    pub(crate) fn with_states(
        &self,
        mut selection: MessageSelection,
    ) -> ApiResult<MessageSelection> {
        let (default, possible) = self.states();
        if selection.filter.states.is_empty() {
            selection.filter.states = default.to_vec();
        }
        match selection.filter.states.iter().find(|state| !possible.contains(state)) {
            None => Ok(selection),
            Some(state) => {
                let possible: Vec<&str> = possible.iter().map(|state| state.as_str()).collect();
                let problem = format!(
                    "the state {} is not possible for {}; use one of {}",
                    state.as_str(),
                    self.as_str(),
                    possible.join(", ")
                );
                Err(Problem::refused(&problem).field("filter.state", problem))
            }
        }
    }
}

/// Result of a bulk command, or of its dry run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct BulkResult {
    /// Number of selected messages.
    pub(crate) count: u64,
    /// Number of changed messages; 0 in a dry run.
    pub(crate) applied: u64,
    /// Number of handlers that were asked to stop.
    pub(crate) requested: u64,
    /// Number of messages that were gone or in a state that does not allow the action.
    pub(crate) refused: u64,
    /// Whether there may be more messages; repeat the request for the rest.
    pub(crate) more: bool,
    /// Cursor of the next messages, passed as `after`; null when there are none.
    #[schema(value_type = Option<String>)]
    pub(crate) next: Option<MessageId>,
    /// Whether this was a dry run.
    pub(crate) dry_run: bool,
}

/// Returns the limit of a request or the default. Fails when it is out of range.
pub(crate) fn bulk_limit(limit: Option<usize>) -> ApiResult<usize> {
    match limit.unwrap_or(LIMIT_DEFAULT) {
        limit if (1..=BULK_MAX).contains(&limit) => Ok(limit),
        limit => Err(Problem::refused(format!(
            "the limit {limit} is not between 1 and {BULK_MAX}; repeat the call for more"
        ))
        .field("limit", format!("must be between 1 and {BULK_MAX}"))),
    }
}

/// Runs a command for each of these messages.
pub(crate) async fn run_bulk(
    app: &App,
    command: &BulkCommand,
    ids: &[MessageId],
) -> Result<BulkResult> {
    let mut result = BulkResult { count: ids.len() as u64, ..BulkResult::default() };
    if matches!(command, BulkCommand::Delete | BulkCommand::Discard) {
        remember_removed(app, ids).await?;
    }
    for chunk in ids.chunks(CONCURRENT_MAX) {
        let commands = chunk.iter().map(|id| run_one(app, command, *id));
        for done in try_join_all(commands).await? {
            match done {
                CommandResult::Applied(_) => result.applied += 1,
                CommandResult::Requested => result.requested += 1,
                CommandResult::Refused(_) | CommandResult::Unknown => result.refused += 1,
            }
        }
    }
    app.node().dead_groups.forget();
    Ok(result)
}

async fn run_one(app: &App, command: &BulkCommand, id: MessageId) -> Result<CommandResult> {
    let admin = app.admin();
    match command {
        BulkCommand::Redrive => admin.redrive(id).await,
        BulkCommand::Cancel => admin.cancel(id).await,
        BulkCommand::Reschedule(due_at) => admin.reschedule(id, *due_at).await,
        BulkCommand::Reassign(to) => admin.reassign(id, to.clone()).await,
        BulkCommand::Delete => admin.delete(id).await,
        BulkCommand::Discard => {
            // Only while it is a dead letter, so that one redriven in the meantime is kept.
            let discarded = app.storage.command(Command::Discard(id), app.clock.now()).await?;
            if matches!(discarded, CommandResult::Applied(_)) {
                let command = "delete";
                app.punctual.events().emit(Event::MessageChanged { message: id, command });
            }
            Ok(discarded)
        }
    }
}
