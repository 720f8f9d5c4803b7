//! Router: the API, its description, the dashboard, and the layers around every request.

use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use punctual::clock::{add, within};

use crate::app::App;
use crate::caller::Caller;
use crate::http_layers::{has_own_timeout, with_http_layers};
use crate::problem::{ApiResult, Problem};
use crate::request_limit::RequestPlace;
use crate::{api, auth, dashboard, health, idempotency, metrics};

/// The health request of the dashboard, which waits five seconds for it.
const HEALTH: &str = "/api/v1/health";
/// Timeout of authenticating that request; computing the health takes up to two more seconds.
const HEALTH_CALLER_TIMEOUT: Duration = Duration::from_secs(2);

/// Returns the router of the whole HTTP interface.
pub fn router(app: App) -> Router {
    let routes = api::routes()
        .merge(metrics::routes())
        .merge(dashboard::routes())
        .layer(from_fn_with_state(app.clone(), admit));
    #[cfg(feature = "otlp")]
    let routes = routes.layer(from_fn_with_state(app.clone(), crate::telemetry::layer));
    // Outside of the authentication layer: health is public.
    let routes = routes.merge(health::routes());
    with_http_layers(routes, &app).with_state(app)
}

/// Authenticates and counts the request, then applies idempotency, which needs the caller. One layer for both,
/// because each layer clones the inner service per request.
async fn admit(State(app): State<App>, request: Request, next: Next) -> Response {
    match count_request(&app, request).await {
        Ok((request, _place)) => idempotency::layer(app, request, next).await,
        Err(problem) => problem.into_response(),
    }
}

/// Authenticates a request and counts it: by address before authentication, then by caller. Long-polling requests
/// have limits of their own, and the health request has none.
async fn count_request(app: &App, request: Request) -> ApiResult<(Request, Option<RequestPlace>)> {
    let path = request.uri().path();
    let (is_health, has_own_limit) = (path.ends_with(HEALTH), has_own_timeout(path));
    let (request, from) = auth::with_address(app, request);
    if is_health {
        return Ok((authenticate(app, request).await?, None));
    }
    let of_address = app.requests().enter_address(from)?;
    let mut request = authenticate(app, request).await?;
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

/// Authenticates a request, with a timeout for the health request, which must get a response while the storage hangs.
async fn authenticate(app: &App, request: Request) -> ApiResult<Request> {
    if !request.uri().path().ends_with(HEALTH) {
        return auth::authenticated(app, request).await;
    }
    let until = add(app.clock.now(), HEALTH_CALLER_TIMEOUT);
    within(&*app.clock, until, auth::authenticated(app, request)).await.unwrap_or_else(|| {
        let seconds = HEALTH_CALLER_TIMEOUT.as_secs();
        let sentence = format!("the storage does not respond: no response within {seconds} s");
        Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, sentence))
    })
}
