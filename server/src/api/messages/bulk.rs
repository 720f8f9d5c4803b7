//! Bulk actions: one action for all messages that match a filter, with a dry run.

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use punctual::model::{MessageId, MessageRecord};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::actions::{assignment, due_at};
use super::{BulkCommand, BulkResult, MessageQuery, bulk_limit, run_bulk, search};
use crate::app::App;
use crate::audit::Change;
use crate::caller::{Caller, Role};
use crate::extract::Body;
use crate::idempotency::Keyed;
use crate::problem::{ApiResult, Problem};

/// A bulk action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum BulkAction {
    /// Redrives finished messages; dead letters unless the filter names other states.
    Redrive,
    /// Cancels pending messages, and asks the handlers of running ones to stop.
    Cancel,
    /// Changes the due time of pending messages to `due_at` or after `delay`.
    Reschedule,
    /// Changes the queue or priority of pending messages. Messages in reserved queues keep their queue.
    Reassign,
    /// Deletes dead letters.
    Discard,
    /// Deletes messages that are not running, without keeping any record of them.
    Delete,
}

/// A bulk action and the messages it applies to.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "action": "redrive", "filter": { "topic": "send-email" }, "dry_run": true }))]
pub(crate) struct BulkRequest {
    /// The action.
    action: BulkAction,
    /// Filter of messages; the same keys as the query parameters of `GET /messages`.
    #[serde(default)]
    filter: MessageQuery,
    /// Largest number of messages, newest first, 1 to 10000. Default: 1000.
    limit: Option<usize>,
    /// Cursor: `next` of the previous response. Needed because rescheduled or reassigned messages may still match.
    after: Option<String>,
    /// New due time, for `reschedule`.
    due_at: Option<Timestamp>,
    /// Delay from now, such as `5m`, for `reschedule`.
    delay: Option<String>,
    /// New queue, for `reassign`.
    queue: Option<String>,
    /// New priority, 0 (lowest) to 9 (highest), for `reassign`.
    priority: Option<u8>,
    /// With `true`, only counts the messages and changes nothing.
    #[serde(default)]
    dry_run: bool,
    /// Reason, recorded in the audit trail.
    reason: Option<String>,
}

impl BulkRequest {
    /// Returns the message behind which the selection begins.
    fn after(&self) -> ApiResult<Option<MessageId>> {
        let after = self.after.as_deref().map(str::parse).transpose();
        after.map_err(|error: punctual::Error| {
            Problem::refused(format!("`after`: {error}")).field("after", error.to_string())
        })
    }

    /// Returns the command for each message. Fails for fields of another action.
    fn command(&self, now: Timestamp) -> ApiResult<BulkCommand> {
        let (reschedule, reassign) = (BulkAction::Reschedule, BulkAction::Reassign);
        let given = [
            ("due_at", self.due_at.is_some(), reschedule),
            ("delay", self.delay.is_some(), reschedule),
            ("queue", self.queue.is_some(), reassign),
            ("priority", self.priority.is_some(), reassign),
        ];
        let stray = given.iter().find(|(_, is_given, of)| *is_given && *of != self.action);
        if let Some((field, _, of)) = stray {
            let of = if *of == reschedule { "reschedule" } else { "reassign" };
            let problem = format!("`{field}` is only for the action `{of}`; leave it out");
            return Err(Problem::refused(&problem).field(*field, problem));
        }
        Ok(match self.action {
            BulkAction::Redrive => BulkCommand::Redrive,
            BulkAction::Cancel => BulkCommand::Cancel,
            BulkAction::Reschedule => {
                BulkCommand::Reschedule(due_at(self.due_at, self.delay.as_deref(), now)?)
            }
            BulkAction::Reassign => {
                BulkCommand::Reassign(assignment(self.queue.as_deref(), self.priority)?)
            }
            BulkAction::Discard => BulkCommand::Discard,
            BulkAction::Delete => BulkCommand::Delete,
        })
    }
}

/// Entry of the audit trail: the result and the new values.
#[derive(Serialize)]
struct BulkEntry {
    #[serde(flatten)]
    result: BulkResult,
    #[serde(skip_serializing_if = "Value::is_null")]
    to: Value,
}

/// Redrives, cancels, reschedules, reassigns, discards or deletes all messages that match a filter.
#[utoipa::path(post, path = "/messages/bulk", tag = "messages", request_body = BulkRequest,
    responses((status = 200, body = BulkResult), (status = 422, body = Problem)))]
pub(crate) async fn bulk(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Body(request): Body<BulkRequest>,
) -> ApiResult<Json<BulkResult>> {
    caller.must_be(Role::Operator)?;
    let limit = bulk_limit(request.limit)?;
    let command = request.command(keyed.first_at(&app))?;
    let selection = command.with_states(request.filter.selection_in_body()?)?;
    let matches = |record: &MessageRecord| command.applies_to(record) && keyed.covers(record);
    let found = search(&app, &selection, request.after()?, limit, matches).await?;
    let (more, next) = (found.next.is_some(), found.next);
    if request.dry_run {
        let count = found.rows.len() as u64;
        return Ok(Json(BulkResult { count, more, next, dry_run: true, ..BulkResult::default() }));
    }
    let ids: Vec<MessageId> = found.rows.iter().map(|record| record.message.id).collect();
    let result = BulkResult { more, next, ..run_bulk(&app, &command, &ids).await? };
    let change = Change::new(command.audit_name(), format!("{} messages", ids.len()));
    let change = change.to(&BulkEntry { result, to: command.audit_value() });
    let change = Change { reason: request.reason, ..change };
    app.audit().note(&caller, change).await?;
    Ok(Json(result))
}
