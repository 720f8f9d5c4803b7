//! Related messages: the parent, the children and the batch of a message.

use std::collections::BTreeSet;

use punctual::Result;
use punctual::inspect::{ExecutionFilter, MessageFilter, PAGE_LIMIT_MAX, PageRequest};
use punctual::model::{Execution, ExecutionId, MessageRecord};
use punctual::uuid::Uuid;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;

/// Largest number of children shown.
const CHILDREN_MAX: usize = 100;

/// Relations of a message.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub(crate) struct RelatedView {
    /// Id of the message it follows, or whose attempt published it.
    parent: Option<String>,
    /// Ids of the messages that follow it or that its attempts published, at most 100 among the newest 1000 messages.
    children: Vec<String>,
    /// Id of its batch.
    batch: Option<String>,
}

/// Returns the relations of a message.
pub(super) async fn related(
    app: &App,
    record: &MessageRecord,
    attempts: &[Execution],
) -> Result<RelatedView> {
    let message = &record.message;
    let followed = message.relations.as_ref().and_then(|relations| relations.parent.as_ref());
    let parent = match (followed, message.correlation.causation) {
        (Some(parent), _) => Some(parent.message),
        (None, Some(execution)) => execution_of(app, execution).await?.and_then(|one| one.message),
        (None, None) => None,
    };
    let attempt_ids: BTreeSet<ExecutionId> = attempts.iter().map(|attempt| attempt.id).collect();
    let page = PageRequest::first(PAGE_LIMIT_MAX);
    let newest = app.inspect.messages(MessageFilter::default(), page).await?.rows;
    let children = newest.iter().filter(|other| {
        let other = &other.message;
        let follows = other.relations.as_ref().and_then(|relations| relations.parent.as_ref());
        follows.is_some_and(|parent| parent.message == message.id)
            || other.correlation.causation.is_some_and(|cause| attempt_ids.contains(&cause))
    });
    Ok(RelatedView {
        parent: parent.map(|id| id.to_string()),
        children: children.map(|one| one.message.id.to_string()).take(CHILDREN_MAX).collect(),
        batch: message.batch().map(|id| id.to_string()),
    })
}

/// Returns an execution. Pages run from newer to older ids, so the page behind the next greater id begins with it.
pub(crate) async fn execution_of(app: &App, id: ExecutionId) -> Result<Option<Execution>> {
    let above = id.as_uuid().as_u128().checked_add(1).map(Uuid::from_u128);
    let page = PageRequest { after: above.map(ExecutionId::from_uuid), limit: 1 };
    let rows = app.inspect.executions(ExecutionFilter::default(), page).await?.rows;
    Ok(rows.into_iter().find(|execution| execution.id == id))
}
