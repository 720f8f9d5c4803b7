//! Dead letters: what was given up, in groups of the same failure, and sending it again or throwing it
//! away, group by group.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use punctual::clock::between;
use punctual::model::{DeadReason, MessageId, MessageRecord, MessageState as Stored};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::messages::{
    Act, LOOKED_AT_MAX, MessageList, MessageQuery, Swept, Wanted, listed, look, sweep, sweep_limit,
};
use crate::app::App;
use crate::audit::Change;
use crate::caller::{Caller, Role};
use crate::extract::{Body, Query};
use crate::fingerprint::fingerprint;
use crate::idempotency::Keyed;
use crate::problem::{Answer, Problem};

/// How many hours a group shows.
const HOURS: usize = 24;
/// The most ids of one request.
const IDS_MAX: usize = 10_000;

/// What this file answers.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(groups))
        .routes(routes!(redrive))
        .routes(routes!(discard))
}

/// Which dead letters.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct DeadQuery {
    /// Only of this group.
    group: Option<String>,
    /// Only of this topic.
    topic: Option<String>,
    /// Only of this queue.
    queue: Option<String>,
    /// Only of this job.
    job: Option<String>,
    /// Only where a text of the message holds this.
    search: Option<String>,
    /// At most so many rows: 1 to 1000, 50 when not given.
    limit: Option<usize>,
    /// The `next` of the page before.
    after: Option<String>,
}

/// Dead letters of the same failure.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct DeadGroup {
    /// Names the group in other calls.
    fingerprint: String,
    /// The topic.
    topic: String,
    /// The job, when they are runs of one.
    job: Option<String>,
    /// The failure of one of them.
    error: Option<String>,
    /// Why that one was given up.
    reason: Option<&'static str>,
    /// How many there are.
    count: u64,
    /// When the first of them was given up.
    first_at: Timestamp,
    /// When the last of them was given up.
    last_at: Timestamp,
    /// One of them, the newest.
    sample_id: String,
    /// How many were given up in each of the last 24 hours, the oldest first.
    per_hour: Vec<u64>,
}

/// Every group, the largest first.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct DeadGroups {
    /// The groups.
    pub(crate) items: Vec<DeadGroup>,
    /// How many dead letters were looked at.
    pub(crate) looked_at: usize,
    /// Whether there are more than were looked at.
    pub(crate) more: bool,
}

impl DeadGroups {
    /// Counts those that were given up in the last hour.
    pub(crate) fn in_the_last_hour(&self) -> u64 {
        self.items.iter().filter_map(|group| group.per_hour.last()).sum()
    }
}

/// The group of a dead letter.
fn group_of(record: &MessageRecord) -> String {
    let message = &record.message;
    let job = message.occurrence.as_ref().map(|occurrence| occurrence.job.as_str());
    fingerprint(message.topic.as_str(), job, record.error.as_deref())
}

/// Dead letters, newest first.
#[utoipa::path(get, path = "/dead-letters", tag = "dead letters", params(DeadQuery),
    responses((status = 200, body = MessageList), (status = 422, body = Problem)))]
async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<DeadQuery>,
) -> Answer<Json<MessageList>> {
    caller.must_be(Role::Viewer)?;
    let DeadQuery { group, topic, queue, job, search, limit, after } = query;
    let state = vec![Stored::Dead.as_str().to_owned()];
    let query =
        MessageQuery { state, queue, topic, job, search, limit, after, ..MessageQuery::default() };
    let takes =
        |record: &MessageRecord| group.as_ref().is_none_or(|group| group_of(record) == *group);
    listed(&app, query, takes).await.map(Json)
}

/// Dead letters in groups of the same failure, among the newest 10000.
#[utoipa::path(get, path = "/dead-letters/groups", tag = "dead letters",
    responses((status = 200, body = DeadGroups)))]
async fn groups(State(app): State<App>, caller: Caller) -> Answer<Json<DeadGroups>> {
    caller.must_be(Role::Viewer)?;
    Ok(Json((*grouped(&app).await?).clone()))
}

/// Every group, the largest first; with many dead letters as it was found some seconds ago.
pub(crate) async fn grouped(app: &App) -> punctual::Result<Arc<DeadGroups>> {
    app.node().dead_groups.get(&*app.clock, Duration::ZERO, find_groups(app)).await
}

/// Finds the groups anew where that is costly.
pub(crate) async fn renew(app: &App) -> punctual::Result<()> {
    app.node().dead_groups.renew(&*app.clock, find_groups(app)).await
}

async fn find_groups(app: &App) -> punctual::Result<Arc<DeadGroups>> {
    let wanted = Wanted::of_states(&[Stored::Dead]);
    let found = look(app, &wanted, None, LOOKED_AT_MAX, |_| true).await?;
    let now = app.clock.now();
    let mut groups: BTreeMap<String, DeadGroup> = BTreeMap::new();
    for record in &found.rows {
        let name = group_of(record);
        let group = groups.entry(name).or_insert_with_key(|name| begun(name, record));
        add(group, record, now);
    }
    let mut items: Vec<DeadGroup> = groups.into_values().collect();
    items.sort_by_key(|group| (std::cmp::Reverse(group.count), group.fingerprint.clone()));
    let (looked_at, more) = (found.looked_at, found.next.is_some());
    Ok(Arc::new(DeadGroups { items, looked_at, more }))
}

/// A group without anybody in it, with its sample.
fn begun(name: &str, record: &MessageRecord) -> DeadGroup {
    let message = &record.message;
    let at = record.ended_at.unwrap_or(message.created_at);
    DeadGroup {
        fingerprint: name.to_owned(),
        topic: message.topic.to_string(),
        job: message.occurrence.as_ref().map(|occurrence| occurrence.job.to_string()),
        error: record.error.as_ref().map(ToString::to_string),
        reason: record.dead.map(DeadReason::as_str),
        count: 0,
        first_at: at,
        last_at: at,
        sample_id: message.id.to_string(),
        per_hour: vec![0; HOURS],
    }
}

fn add(group: &mut DeadGroup, record: &MessageRecord, now: Timestamp) {
    let at = record.ended_at.unwrap_or(record.message.created_at);
    group.count += 1;
    group.first_at = group.first_at.min(at);
    group.last_at = group.last_at.max(at);
    let hours_ago = usize::try_from(between(at, now).as_secs() / 3_600).unwrap_or(usize::MAX);
    if let Some(hour) = HOURS.checked_sub(hours_ago.saturating_add(1))
        && let Some(count) = group.per_hour.get_mut(hour)
    {
        *count += 1;
    }
}

/// Which dead letters: exactly one of `fingerprint`, `filter` and `ids`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "filter": { "topic": "send-email" }, "dry_run": true }))]
struct DeadRequest {
    /// All of a group.
    fingerprint: Option<String>,
    /// All that match; the same keys as in a list of messages.
    filter: Option<MessageQuery>,
    /// These.
    ids: Option<Vec<String>>,
    /// At most so many, newest first: 1 to 10000, 1000 when not given.
    limit: Option<usize>,
    /// Only says how many it would be about.
    #[serde(default)]
    dry_run: bool,
    /// Why, for the audit trail.
    note: Option<String>,
}

/// Sends dead letters again, at once; their attempts start anew.
#[utoipa::path(post, path = "/dead-letters/redrive", tag = "dead letters", request_body = DeadRequest,
    responses((status = 200, body = Swept), (status = 422, body = Problem)))]
async fn redrive(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Body(request): Body<DeadRequest>,
) -> Answer<Json<Swept>> {
    act(&app, (&caller, &keyed), Act::Redrive, request).await
}

/// Deletes dead letters, with their history.
#[utoipa::path(post, path = "/dead-letters/discard", tag = "dead letters", request_body = DeadRequest,
    responses((status = 200, body = Swept), (status = 422, body = Problem)))]
async fn discard(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Body(request): Body<DeadRequest>,
) -> Answer<Json<Swept>> {
    act(&app, (&caller, &keyed), Act::Discard, request).await
}

async fn act(
    app: &App,
    (caller, keyed): (&Caller, &Keyed),
    act: Act,
    request: DeadRequest,
) -> Answer<Json<Swept>> {
    caller.must_be(Role::Operator)?;
    let (ids, more) = chosen(app, keyed, &request).await?;
    if request.dry_run {
        let count = ids.len() as u64;
        return Ok(Json(Swept { count, more, dry_run: true, ..Swept::default() }));
    }
    let swept = Swept { more, ..sweep(app, &act, &ids).await? };
    let target = match &request.fingerprint {
        Some(group) => format!("the dead letters of {group}"),
        None => format!("{} dead letters", ids.len()),
    };
    let change = Change { reason: request.note, ..Change::new(act.audited(), target).to(&swept) };
    app.audit().note(caller, change).await?;
    Ok(Json(swept))
}

/// The dead letters that are meant, and whether there may be more.
async fn chosen(app: &App, keyed: &Keyed, request: &DeadRequest) -> Answer<(Vec<MessageId>, bool)> {
    let limit = sweep_limit(request.limit)?;
    let dead = Wanted::of_states(&[Stored::Dead]);
    let found = match (&request.fingerprint, &request.filter, &request.ids) {
        (Some(group), None, None) => {
            let takes = |record: &MessageRecord| group_of(record) == *group && keyed.covers(record);
            look(app, &dead, None, limit, takes).await?
        }
        (None, Some(filter), None) => {
            let wanted = Act::Discard.narrowed(filter.wanted_in_body()?)?;
            look(app, &wanted, None, limit, |record| keyed.covers(record)).await?
        }
        (None, None, Some(ids)) => return Ok((named(app, keyed, ids).await?, false)),
        _ => {
            return Err(Problem::refused("give one of `fingerprint`, `filter` and `ids`")
                .field("fingerprint", "give this, or filter, or ids"));
        }
    };
    let ids = found.rows.iter().map(|record| record.message.id).collect();
    Ok((ids, found.next.is_some()))
}

/// The messages that were named, as far as they are dead: others are not touched.
async fn named(app: &App, keyed: &Keyed, texts: &[String]) -> Answer<Vec<MessageId>> {
    if texts.is_empty() || texts.len() > IDS_MAX {
        return Err(Problem::refused(format!("{} ids; give 1 to {IDS_MAX}", texts.len()))
            .field("ids", format!("must have 1 to {IDS_MAX}")));
    }
    let mut ids = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let id: MessageId = text.parse().map_err(|error: punctual::Error| {
            Problem::refused(error.to_string()).field(format!("ids[{index}]"), error.to_string())
        })?;
        let record = app.inspect.message(id).await?;
        if record.is_some_and(|record| record.state == Stored::Dead && keyed.covers(&record)) {
            ids.push(id);
        }
    }
    Ok(ids)
}
