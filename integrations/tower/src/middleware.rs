//! Middleware from layers. The layered service and the inner part of the chain run concurrently in the task
//! of the attempt: nothing is spawned, and when the layers drop the attempt, the handler is dropped with it.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use punctual::{Context, HandlerError, HandlerResult, Middleware, NextHandle, Outcome};
use tower_layer::Layer;
use tower_service::Service;

use crate::attempt::{Attempt, AttemptChannels, AttemptError, BoxError, InnerService};

/// A layer of tower around every attempt of a process; see [`layered`].
pub struct TowerMiddleware<S> {
    service: Mutex<S>,
}

/// Returns a [`Middleware`](punctual::Middleware) that runs a layer, or a stack of them, around attempts.
///
/// The layer is applied once, and its service is cloned for each attempt, so what the clones share, such
/// as the permits of a limit, is shared by all attempts of the process. A service that cannot be cloned,
/// such as tower's rate limit, goes behind tower's `buffer`.
pub fn layered<L>(layer: L) -> TowerMiddleware<L::Service>
where
    L: Layer<InnerService>,
    L::Service: Service<Attempt, Response = Outcome> + Clone + Send + 'static,
    <L::Service as Service<Attempt>>::Error: Into<BoxError>,
    <L::Service as Service<Attempt>>::Future: Send,
{
    TowerMiddleware { service: Mutex::new(layer.layer(InnerService(()))) }
}

#[async_trait]
impl<S> Middleware for TowerMiddleware<S>
where
    S: Service<Attempt, Response = Outcome> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
{
    async fn around_handle(&self, context: Context, next: NextHandle<'_>) -> HandlerResult {
        let service = self.service.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (attempt, channels) = Attempt::new(context);
        run_concurrently(run_layers(service, attempt), channels, next).await
    }
}

/// Sends an attempt through the layers.
async fn run_layers<S>(mut service: S, attempt: Attempt) -> HandlerResult
where
    S: Service<Attempt, Response = Outcome>,
    S::Error: Into<BoxError>,
{
    let ready = poll_fn(|task| service.poll_ready(task)).await;
    ready.map_err(|error| failure(error.into()))?;
    service.call(attempt).await.map_err(|error| failure(error.into()))
}

/// Runs the layers and, once they call the inner service, the inner part of the chain concurrently.
/// Returns the result of the layers.
async fn run_concurrently(
    layers: impl Future<Output = HandlerResult>,
    channels: AttemptChannels,
    next: NextHandle<'_>,
) -> HandlerResult {
    let AttemptChannels { started, result: mut result_sender } = channels;
    let mut layers = pin!(layers);
    let context = tokio::select! {
        biased;
        outcome = &mut layers => return outcome,
        context = started => context,
    };
    // The layers dropped the attempt before it started, and return why.
    let Ok(context) = context else { return layers.await };
    let inner_result = tokio::select! {
        biased;
        outcome = &mut layers => return outcome,
        () = result_sender.closed() => None,
        result = next.run(context) => Some(result),
    };
    if let Some(result) = inner_result {
        let _ = result_sender.send(result);
    }
    layers.await
}

/// Converts an error of a layer; the handler's own error stays unchanged.
fn failure(error: BoxError) -> HandlerError {
    match error.downcast::<AttemptError>() {
        Ok(handler_error) => handler_error.0,
        Err(other) => HandlerError::from(other),
    }
}

impl<S> fmt::Debug for TowerMiddleware<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TowerMiddleware").finish_non_exhaustive()
    }
}
