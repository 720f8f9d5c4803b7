//! The whole of HTTP: the API, its description, the dashboard, and what surrounds every request.

use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use punctual::clock::{add, within};

use crate::app::App;
use crate::caller::Caller;
use crate::problem::{Answer, Problem};
use crate::request_limit::RequestPlace;
use crate::surround::{surround, waits};
use crate::{api, auth, dashboard, health, idempotency, metrics};

/// The request that the banner of the dashboard waits five seconds for.
const HEALTH: &str = "/api/v1/health";
/// How long it may take to find out who sends that one; how the node is takes two seconds more at most.
const HEALTH_CALLER_TIMEOUT: Duration = Duration::from_secs(2);

/// Everything the server answers.
pub fn router(app: App) -> Router {
    let routes = api::routes()
        .merge(metrics::routes())
        .merge(dashboard::routes())
        .layer(from_fn_with_state(app.clone(), admitted));
    #[cfg(feature = "otlp")]
    let routes = routes.layer(from_fn_with_state(app.clone(), crate::telemetry::layer));
    // Outside of it: who asks how a node is need not be known.
    let routes = routes.merge(health::routes());
    surround(routes, &app).with_state(app)
}

/// Who calls is known first, since what is remembered of a request is remembered of them. One layer for both:
/// each costs every request some copies of all that is within.
async fn admitted(State(app): State<App>, request: Request, next: Next) -> Response {
    match counted(&app, request).await {
        Ok((request, _place)) => idempotency::remembered(app, request, next).await,
        Err(problem) => problem.into_response(),
    }
}

/// Finds out who calls, and takes a place among the requests under way: one of the address until it is known who calls,
/// then one of the caller. Requests that wait by their nature have limits of their own, and the one for the condition
/// of the node has none.
async fn counted(app: &App, request: Request) -> Answer<(Request, Option<RequestPlace>)> {
    let path = request.uri().path();
    let (is_health, has_own_limit) = (path.ends_with(HEALTH), waits(path));
    let (request, from) = auth::located(app, request);
    if is_health {
        return Ok((known(app, request).await?, None));
    }
    let of_address = app.requests().enter_address(from)?;
    let mut request = known(app, request).await?;
    if has_own_limit {
        return Ok((request, None));
    }
    let place = match request.extensions().get::<Caller>() {
        Some(caller) => Some(app.requests().enter_caller(caller)?),
        None => of_address,
    };
    if let Some(place) = &place {
        request.extensions_mut().insert(place.clone());
    }
    Ok((request, place))
}

/// Finds out who calls, in a bounded time for the request that has to be answered while the storage hangs.
async fn known(app: &App, request: Request) -> Answer<Request> {
    if !request.uri().path().ends_with(HEALTH) {
        return auth::known(app, request).await;
    }
    let until = add(app.clock.now(), HEALTH_CALLER_TIMEOUT);
    within(&*app.clock, until, auth::known(app, request)).await.unwrap_or_else(|| {
        let seconds = HEALTH_CALLER_TIMEOUT.as_secs();
        let sentence = format!("the storage does not answer: no answer within {seconds} s");
        Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, sentence))
    })
}
