//! One action for all messages that match, with a look first.

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use punctual::model::{MessageId, MessageRecord};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::acting::{assignment, due_at};
use super::sweep::limit;
use super::{Act, MessageQuery, Swept, look, sweep};
use crate::app::App;
use crate::audit::Change;
use crate::caller::{Caller, Role};
use crate::extract::Body;
use crate::idempotency::Keyed;
use crate::problem::{Answer, Problem};

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum BulkAction {
    /// Sends finished messages again; dead ones unless the filter names other states.
    Redrive,
    /// Stops pending messages at once, and running ones by asking their handlers.
    Cancel,
    /// Makes pending messages due at another time: at `due_at`, or after `delay`.
    Reschedule,
    /// Puts pending messages into the queue `queue`, or gives them the priority `priority`. What waits in a
    /// line of the engine's own stays in it.
    Reassign,
    /// Deletes dead letters.
    Discard,
    /// Deletes messages that are not running, without a trace.
    Delete,
}

/// What to do with which messages.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "action": "redrive", "filter": { "topic": "send-email" }, "dry_run": true }))]
pub(crate) struct BulkRequest {
    /// What to do.
    action: BulkAction,
    /// Which messages; the same keys as in a list.
    #[serde(default)]
    filter: MessageQuery,
    /// At most so many, newest first: 1 to 10000, 1000 when not given.
    limit: Option<usize>,
    /// Only those behind this message, as the answer before has it in `next`: messages that were rescheduled
    /// or reassigned may still match.
    after: Option<String>,
    /// When they are due instead; for `reschedule`.
    due_at: Option<Timestamp>,
    /// So long from now, such as `5m`; for `reschedule`.
    delay: Option<String>,
    /// The queue they wait in instead; for `reassign`.
    queue: Option<String>,
    /// From 0 (last) to 9 (first); for `reassign`.
    priority: Option<u8>,
    /// Only says how many it would be about.
    #[serde(default)]
    dry_run: bool,
    /// Why, for the audit trail.
    reason: Option<String>,
}

impl BulkRequest {
    /// Behind which message it begins.
    fn after(&self) -> Answer<Option<MessageId>> {
        let after = self.after.as_deref().map(str::parse).transpose();
        after.map_err(|error: punctual::Error| {
            Problem::refused(format!("`after`: {error}")).field("after", error.to_string())
        })
    }

    /// What is done to each message; refuses what does not belong to it.
    fn act(&self, now: Timestamp) -> Answer<Act> {
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
            let problem = format!("`{field}` belongs to the action `{of}`; leave it out");
            return Err(Problem::refused(&problem).field(*field, problem));
        }
        Ok(match self.action {
            BulkAction::Redrive => Act::Redrive,
            BulkAction::Cancel => Act::Cancel,
            BulkAction::Reschedule => {
                Act::Reschedule(due_at(self.due_at, self.delay.as_deref(), now)?)
            }
            BulkAction::Reassign => {
                Act::Reassign(assignment(self.queue.as_deref(), self.priority)?)
            }
            BulkAction::Discard => Act::Discard,
            BulkAction::Delete => Act::Delete,
        })
    }
}

/// What the audit trail says: what it came to, and what was changed to what.
#[derive(Serialize)]
struct Noted {
    #[serde(flatten)]
    swept: Swept,
    #[serde(skip_serializing_if = "Value::is_null")]
    to: Value,
}

/// Redrives, cancels, reschedules, reassigns, discards or deletes every message that matches.
#[utoipa::path(post, path = "/messages/bulk", tag = "messages", request_body = BulkRequest,
    responses((status = 200, body = Swept), (status = 422, body = Problem)))]
pub(crate) async fn bulk(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Body(request): Body<BulkRequest>,
) -> Answer<Json<Swept>> {
    caller.must_be(Role::Operator)?;
    let limit = limit(request.limit)?;
    let act = request.act(keyed.first_at(&app))?;
    let wanted = act.narrowed(request.filter.wanted_in_body()?)?;
    let takes = |record: &MessageRecord| act.takes(record) && keyed.covers(record);
    let found = look(&app, &wanted, request.after()?, limit, takes).await?;
    let (more, next) = (found.next.is_some(), found.next);
    if request.dry_run {
        let count = found.rows.len() as u64;
        return Ok(Json(Swept { count, more, next, dry_run: true, ..Swept::default() }));
    }
    let ids: Vec<MessageId> = found.rows.iter().map(|record| record.message.id).collect();
    let swept = Swept { more, next, ..sweep(&app, &act, &ids).await? };
    let change = Change::new(act.audited(), format!("{} messages", ids.len()));
    let change = change.to(&Noted { swept, to: act.noted() });
    let change = Change { reason: request.reason, ..change };
    app.audit().note(&caller, change).await?;
    Ok(Json(swept))
}
