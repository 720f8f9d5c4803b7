//! What happens, as it happens, as server-sent events. A listener that is too slow misses some and is told
//! how many, by an event `missed`; so the process never waits for a listener, and never keeps more for one
//! than the buffer of its stream. When the process has stopped, so has the stream.

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

use crate::routes::Shared;

/// One who listens.
struct Listener {
    events: Receiver<Arc<Event>>,
    is_over: bool,
    _seat: OwnedSemaphorePermit,
}

/// Every event from now on: its name, and the object of [`Event::to_json`].
pub(crate) async fn events(State(shared): State<Shared>) -> Response {
    let Ok(seat) = shared.listeners.clone().try_acquire_owned() else {
        return later("as many listen as may; come again later");
    };
    // Listened to before it is asked, so that the end of a process cannot fall between.
    let events = shared.punctual.events().listen();
    if shared.punctual.is_stopping() {
        return later("the process is stopping");
    }
    let listener = Listener { events, is_over: false, _seat: seat };
    Sse::new(unfold(listener, next)).keep_alive(KeepAlive::default()).into_response()
}

async fn next(mut listener: Listener) -> Option<(Result<Frame, Infallible>, Listener)> {
    if listener.is_over {
        return None;
    }
    let (name, object) = match listener.events.recv().await {
        Ok(event) => {
            listener.is_over = matches!(*event, Event::ProcessStopped { .. });
            (event.name(), event.to_json())
        }
        Err(RecvError::Lagged(missed)) => {
            ("missed", json!({ "event": "missed", "missed": missed }))
        }
        Err(RecvError::Closed) => return None,
    };
    Some((Ok(Frame::default().event(name).data(object.to_string())), listener))
}

fn later(why: &str) -> Response {
    let body = Json(json!({ "error": "unavailable", "message": why }));
    (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "5")], body).into_response()
}
