//! One action for all messages that match, with a look first.

use axum::Json;
use axum::extract::State;
use punctual::model::MessageId;
use serde::Deserialize;
use utoipa::ToSchema;

use super::sweep::limit;
use super::{Act, MessageQuery, Swept, look, sweep};
use crate::app::App;
use crate::audit::Change;
use crate::caller::{Caller, Role};
use crate::extract::Body;
use crate::problem::{Answer, Problem};

/// What to do with which messages.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "action": "redrive", "filter": { "topic": "send-email" }, "dry_run": true }))]
pub(crate) struct BulkRequest {
    /// What to do.
    action: Act,
    /// Which messages; the same keys as in a list.
    #[serde(default)]
    filter: MessageQuery,
    /// At most so many, newest first: 1 to 10000, 1000 when not given.
    limit: Option<usize>,
    /// Only says how many it would be about.
    #[serde(default)]
    dry_run: bool,
    /// Why, for the audit trail.
    reason: Option<String>,
}

/// Redrives, cancels, discards or deletes every message that matches.
#[utoipa::path(post, path = "/messages/bulk", tag = "messages", request_body = BulkRequest,
    responses((status = 200, body = Swept), (status = 422, body = Problem)))]
pub(crate) async fn bulk(
    State(app): State<App>,
    caller: Caller,
    Body(request): Body<BulkRequest>,
) -> Answer<Json<Swept>> {
    caller.must_be(Role::Operator)?;
    let limit = limit(request.limit)?;
    let wanted = request.action.narrowed(request.filter.wanted_in_body()?)?;
    let found = look(&app, &wanted, None, limit, |_| true).await?;
    let more = found.next.is_some();
    if request.dry_run {
        let count = found.rows.len() as u64;
        return Ok(Json(Swept { count, more, dry_run: true, ..Swept::default() }));
    }
    let ids: Vec<MessageId> = found.rows.iter().map(|record| record.message.id).collect();
    let swept = Swept { more, ..sweep(&app, request.action, &ids).await? };
    let change =
        Change::new(request.action.audited(), format!("{} messages", ids.len())).to(&swept);
    let change = Change { reason: request.reason, ..change };
    app.audit().note(&caller, change).await?;
    Ok(Json(swept))
}
