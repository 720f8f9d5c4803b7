//! Event stream: events of the process as server-sent events. A listener that is too slow misses some and
//! gets their number in an event `missed`; so the process never waits for a listener, and buffers no more
//! for one than its stream. The stream ends when the process has stopped.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::sse::{Event as Frame, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use punctual::Event;
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::routes::RouteState;

/// A listener of the stream, and its place among the permitted ones.
struct Listener {
    events: Receiver<Arc<Event>>,
    has_ended: bool,
    _permit: OwnedSemaphorePermit,
}

/// Streams every event from now on: its name, and the object of [`Event::to_json`].
pub(crate) async fn events(State(shared): State<RouteState>) -> Response {
    let Ok(permit) = shared.listeners.clone().try_acquire_owned() else {
        return unavailable("the limit of listeners is reached; try again later");
    };
    // Subscribed before the check, so that a stop in between is not missed.
    let events = shared.punctual.events().listen();
    if shared.punctual.is_stopping() {
        return unavailable("the process is stopping");
    }
    let listener = Listener { events, has_ended: false, _permit: permit };
    Sse::new(unfold(listener, next)).keep_alive(KeepAlive::default()).into_response()
}

async fn next(mut listener: Listener) -> Option<(Result<Frame, Infallible>, Listener)> {
    if listener.has_ended {
        return None;
    }
    let (name, object) = match listener.events.recv().await {
        Ok(event) => {
            listener.has_ended = matches!(*event, Event::ProcessStopped { .. });
            (event.name(), event.to_json())
        }
        Err(RecvError::Lagged(missed)) => {
            ("missed", json!({ "event": "missed", "missed": missed }))
        }
        Err(RecvError::Closed) => return None,
    };
    Some((Ok(Frame::default().event(name).data(object.to_string())), listener))
}

fn unavailable(why: &str) -> Response {
    let body = Json(json!({ "error": "unavailable", "message": why }));
    (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "5")], body).into_response()
}
