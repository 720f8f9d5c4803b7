//! API tokens. The secret is returned once, when the token is created.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use jiff::Timestamp;
use punctual::clock::add;
use punctual::model::{MessageId, Queue};
use punctual::schedule::parse_duration;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::audit::Change;
use crate::auth::{EVERY_QUEUE, Scope, Token, TokenDraft};
use crate::caller::{Caller, Role};
use crate::extract::{Body, Path, Query};
use crate::idempotency::Keyed;
use crate::page::{Listing, PageQuery};
use crate::problem::{ApiResult, Problem};

/// Largest number of characters of a token's name.
const NAME_MAX: usize = 100;
/// Largest number of queues of a token.
const QUEUES_MAX: usize = 100;

/// Default time to live of a token.
const TTL_DEFAULT: Duration = Duration::from_hours(365 * 24);

/// Returns the routes of this module.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(revoke))
}

/// A token, without its secret.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct TokenView {
    /// Id of the token.
    id: String,
    /// Purpose of the token.
    name: String,
    /// Scopes of the token.
    scopes: Vec<Scope>,
    /// Queues of the scope `work`; `*` is every queue. Empty without that scope.
    queues: Vec<String>,
    /// Name of the user who created it.
    user: String,
    /// Creation time.
    created_at: Timestamp,
    /// Last use, to the minute.
    last_used_at: Option<Timestamp>,
    /// Expiry; null without one.
    expires_at: Option<Timestamp>,
    /// The secret; only in the response that creates the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

impl From<Token> for TokenView {
    fn from(token: Token) -> Self {
        let Token { id, name, scopes, queues, user, created_at, last_used_at, expires_at, .. } =
            token;
        // An old token may have queues without the scope `work`.
        let queues = if scopes.contains(&Scope::Work) { queues } else { Vec::new() };
        Self { id, name, scopes, queues, user, created_at, last_used_at, expires_at, secret: None }
    }
}

/// A token to create.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewToken {
    /// Purpose of the token.
    name: String,
    /// Scopes of the token.
    scopes: Vec<Scope>,
    /// Queues that a token with the scope `work` may claim from, at most 100; `["*"]` is every queue.
    #[serde(default)]
    queues: Vec<String>,
    /// Time to live such as `90d`, or `never`. Default: 365 days.
    expires_in: Option<String>,
}

/// Lists the caller's tokens; for admins all tokens.
#[utoipa::path(get, path = "/tokens", tag = "tokens", params(PageQuery), responses((status = 200, body = Listing<TokenView>)))]
async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(page): Query<PageQuery>,
) -> ApiResult<Json<Listing<TokenView>>> {
    caller.must_be(Role::Viewer)?;
    let limit = page.limit()?;
    let tokens = app.auth().tokens.list(page.after, limit).await?;
    let next =
        (tokens.len() == limit).then(|| tokens.last().map(|token| token.id.clone())).flatten();
    let owner = caller.owning();
    let is_own = |token: &Token| token.user == caller.person() && token.owner == owner;
    let is_visible = |token: &Token| caller.role == Role::Admin || is_own(token);
    let items = tokens.into_iter().filter(is_visible).map(TokenView::from).collect();
    Ok(Json(Listing { items, next }))
}

/// Creates a token of the caller, which never allows more than the caller. The scope `work` needs an admin.
#[utoipa::path(post, path = "/tokens", tag = "tokens", request_body = NewToken, responses(
    (status = 201, body = TokenView), (status = 403, body = Problem), (status = 422, body = Problem)))]
async fn create(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Body(request): Body<NewToken>,
) -> ApiResult<(StatusCode, Json<TokenView>)> {
    caller.must_be(Role::Viewer)?;
    if !(1..=NAME_MAX).contains(&request.name.trim().chars().count()) {
        let sentence = format!("a token needs a name of 1 to {NAME_MAX} characters");
        return Err(Problem::refused(sentence).field("name", "1 to 100 characters"));
    }
    if request.scopes.is_empty() {
        let sentence =
            "a token without scopes allows nothing; give read, operate, admin, work or publish";
        return Err(Problem::refused(sentence).field("scopes", "at least one"));
    }
    for scope in &request.scopes {
        caller.must_be(scope.creator_role())?;
    }
    let expires_at = match request.expires_in.as_deref() {
        None => Some(add(app.clock.now(), TTL_DEFAULT)),
        Some("never") => None,
        Some(text) => {
            let ttl = parse_duration(text).map_err(|error| {
                Problem::refused(error.to_string()).field("expires_in", error.to_string())
            })?;
            Some(add(app.clock.now(), ttl))
        }
    };
    // Checked after the generation was read: a user disabled in between gets no token, or one that is revoked already.
    let generation = app.auth().tokens_generation(&caller).await?;
    if !app.auth().is_still_authorized(&caller).await? {
        let sentence = "the credentials of this request have expired; log in again";
        return Err(Problem::new(StatusCode::UNAUTHORIZED, sentence));
    }
    let draft = TokenDraft {
        id: keyed.id(0).map(MessageId::as_uuid),
        queues: queues(&request)?,
        name: request.name.trim().to_owned(),
        scopes: request.scopes,
        user: caller.person().to_owned(),
        owner: caller.owning(),
        generation,
        expires_at,
    };
    let (token, secret) = app.auth().tokens.create(draft).await?;
    let view = TokenView::from(token);
    app.audit().note(&caller, Change::new("token.create", &view.id).to(&view)).await?;
    Ok((StatusCode::CREATED, Json(TokenView { secret: Some(secret), ..view })))
}

/// Returns the queues of a token. Fails unless they are given exactly when the token has the scope `work`.
fn queues(request: &NewToken) -> ApiResult<Vec<String>> {
    let invalid = |problem: String| Problem::refused(problem.clone()).field("queues", problem);
    let works = request.scopes.contains(&Scope::Work);
    match request.queues.as_slice() {
        [] if works => Err(invalid(
            "a token with the scope work needs the queues it may claim from; [\"*\"] is every queue"
                .to_owned(),
        )),
        [] => Ok(Vec::new()),
        _ if !works => Err(invalid("queues need the scope work".to_owned())),
        all if all.len() > QUEUES_MAX => {
            Err(invalid(format!("{} queues are more than the limit of {QUEUES_MAX}", all.len())))
        }
        all => {
            for queue in all.iter().filter(|queue| *queue != EVERY_QUEUE) {
                Queue::new(queue).map_err(|error| invalid(error.to_string()))?;
            }
            Ok(all.to_vec())
        }
    }
}

/// Revokes a token of the caller; admins can revoke any token.
#[utoipa::path(delete, path = "/tokens/{id}", tag = "tokens", params(("id" = String, Path)), responses(
    (status = 204), (status = 404, body = Problem)))]
async fn revoke(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> ApiResult<StatusCode> {
    caller.must_be(Role::Viewer)?;
    let unknown = || Problem::not_found(format!("there is no token {id:?}"));
    let token = app.auth().tokens.get(&id).await?.ok_or_else(unknown)?;
    if token.user != caller.person() || token.owner != caller.owning() {
        caller.must_be(Role::Admin)?;
    }
    app.auth().tokens.revoke(&id).await?;
    let before = TokenView::from(token);
    app.audit().note(&caller, Change::new("token.revoke", &id).from(&before)).await?;
    Ok(StatusCode::NO_CONTENT)
}
