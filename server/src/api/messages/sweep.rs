//! One command for many messages: find them, then command each by itself, so that a sweep which broke off
//! or ran twice did nothing twice.

use futures_util::future::try_join_all;
use punctual::client::SWEEP_MAX;
use punctual::model::{MessageId, State};
use punctual::storage::{Command, Commanded};
use punctual::{Event, Result};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Wanted;
use crate::app::App;
use crate::problem::{Answer, Problem};

/// How many commands are on their way at once.
pub(crate) const TOGETHER_MAX: usize = 32;
/// How many messages a sweep is about when nobody says.
const LIMIT_DEFAULT: usize = 1_000;

/// What is done to each message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Act {
    /// Sends finished messages again; dead ones unless the filter names other states.
    Redrive,
    /// Stops pending messages at once, and running ones by asking their handlers.
    Cancel,
    /// Deletes dead letters.
    Discard,
    /// Deletes messages that are not running, without a trace.
    Delete,
}

impl Act {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Redrive => "redrive",
            Self::Cancel => "cancel",
            Self::Discard => "discard",
            Self::Delete => "delete",
        }
    }

    /// What the audit trail calls it.
    pub(crate) fn audited(self) -> &'static str {
        match self {
            Self::Redrive => "messages.redrive",
            Self::Cancel => "messages.cancel",
            Self::Discard => "messages.discard",
            Self::Delete => "messages.delete",
        }
    }

    /// The states it is about when a filter names none, and all that it may be about.
    fn states(self) -> (&'static [State], &'static [State]) {
        const ALIVE: &[State] = &[State::Pending, State::Running];
        const ENDED: &[State] = &[State::Dead, State::Done, State::Cancelled];
        const RESTING: &[State] = &[State::Pending, State::Dead, State::Done, State::Cancelled];
        match self {
            Self::Redrive => (&[State::Dead], ENDED),
            Self::Cancel => (ALIVE, ALIVE),
            Self::Discard => (&[State::Dead], &[State::Dead]),
            Self::Delete => (RESTING, RESTING),
        }
    }

    /// What is wanted, of the states it is about; other ones are refused.
    pub(crate) fn narrowed(self, mut wanted: Wanted) -> Answer<Wanted> {
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
pub(crate) async fn sweep(app: &App, act: Act, ids: &[MessageId]) -> Result<Swept> {
    let mut swept = Swept { count: ids.len() as u64, ..Swept::default() };
    for some in ids.chunks(TOGETHER_MAX) {
        for answer in try_join_all(some.iter().map(|id| command(app, act, *id))).await? {
            match answer {
                Commanded::Applied(_) => swept.applied += 1,
                Commanded::Requested => swept.requested += 1,
                Commanded::Refused(_) | Commanded::Unknown => swept.refused += 1,
            }
        }
    }
    app.node().dead_groups.forget();
    Ok(swept)
}

async fn command(app: &App, act: Act, id: MessageId) -> Result<Commanded> {
    let admin = app.punctual.admin();
    match act {
        Act::Redrive => admin.redrive(id).await,
        Act::Cancel => admin.cancel(id).await,
        Act::Delete => admin.delete(id).await,
        Act::Discard => {
            // Only while it is dead, so that one which was sent again in the meantime stays.
            let answer = app.storage.command(Command::Discard(id), app.clock.now()).await?;
            if matches!(answer, Commanded::Applied(_)) {
                let command = "delete";
                app.punctual.events().emit(Event::MessageCommanded { message: id, command });
            }
            Ok(answer)
        }
    }
}
