//! Layers as middleware. The layered service and the rest of the chain run side by side in the task of
//! the attempt: nothing is spawned, and when the layers drop the attempt, the handler is dropped with it.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use punctual::{Context, HandlerError, HandlerResult, Middleware, NextHandle, Outcome};
use tower_layer::Layer;
use tower_service::Service;

use crate::attempt::{Attempt, AttemptError, BoxError, Rest, Waiting};

/// A layer of tower around every attempt of a process; see [`layered`].
pub struct Layered<S> {
    service: Mutex<S>,
}

/// Puts a layer, or a stack of them, around attempts. What comes of it is a
/// [`Middleware`](punctual::Middleware).
///
/// The layer is applied once, and its service is cloned for each attempt, so what the clones share, such
/// as the permits of a limit, is shared by all attempts of the process. A service that cannot be cloned,
/// such as tower's rate limit, goes behind tower's `buffer`.
pub fn layered<L>(layer: L) -> Layered<L::Service>
where
    L: Layer<Rest>,
    L::Service: Service<Attempt, Response = Outcome> + Clone + Send + 'static,
    <L::Service as Service<Attempt>>::Error: Into<BoxError>,
    <L::Service as Service<Attempt>>::Future: Send,
{
    Layered { service: Mutex::new(layer.layer(Rest(()))) }
}

#[async_trait]
impl<S> Middleware for Layered<S>
where
    S: Service<Attempt, Response = Outcome> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
{
    async fn around_handle(&self, context: Context, next: NextHandle<'_>) -> HandlerResult {
        let service = self.service.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (attempt, waiting) = Attempt::new(context);
        side_by_side(pass(service, attempt), waiting, next).await
    }
}

/// Sends an attempt through the layers.
async fn pass<S>(mut service: S, attempt: Attempt) -> HandlerResult
where
    S: Service<Attempt, Response = Outcome>,
    S::Error: Into<BoxError>,
{
    let ready = poll_fn(|task| service.poll_ready(task)).await;
    ready.map_err(|error| failure(error.into()))?;
    service.call(attempt).await.map_err(|error| failure(error.into()))
}

/// Runs the layers and, once they let the attempt through, the rest of the chain beside them. What the
/// layers answer counts.
async fn side_by_side(
    layers: impl Future<Output = HandlerResult>,
    waiting: Waiting,
    next: NextHandle<'_>,
) -> HandlerResult {
    let Waiting { go, mut answer } = waiting;
    let mut layers = pin!(layers);
    let context = tokio::select! {
        biased;
        said = &mut layers => return said,
        gone = go => gone,
    };
    // They dropped the attempt unmade, and will say why.
    let Ok(context) = context else { return layers.await };
    let rest = tokio::select! {
        biased;
        said = &mut layers => return said,
        () = answer.closed() => None,
        result = next.run(context) => Some(result),
    };
    if let Some(result) = rest {
        let _ = answer.send(result);
    }
    layers.await
}

/// An error of a layer, or the handler's own as it was.
fn failure(error: BoxError) -> HandlerError {
    match error.downcast::<AttemptError>() {
        Ok(own) => own.0,
        Err(other) => HandlerError::from(other),
    }
}

impl<S> fmt::Debug for Layered<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layered").finish_non_exhaustive()
    }
}
