//! Graceful shutdown: the HTTP server and the process start together and, at one signal, stop together.

use std::future::IntoFuture;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use punctual::clock::{Clock, SystemClock, add, within};
use punctual::{Error, Punctual, Result, ShutdownReport};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// Time that open requests have after the process has stopped; then they are dropped.
pub const REQUEST_GRACE: Duration = Duration::from_secs(10);

/// Starts the process, serves the application, and stops both when the signal comes.
///
/// From the signal on no new connection is accepted and no new message is claimed. Open requests
/// and running handlers finish concurrently: handlers within the times of
/// [`Options`](punctual::Options), requests within the same and [`REQUEST_GRACE`] more. A request may
/// still publish meanwhile; what it publishes is stored and handled by the next process.
pub async fn serve_until(
    listener: TcpListener,
    app: Router,
    punctual: &Punctual,
    signal: impl Future<Output = ()>,
) -> Result<ShutdownReport> {
    let mut signal = pin!(signal);
    tokio::select! {
        biased;
        () = &mut signal => return Ok(punctual.shutdown().await),
        started = punctual.start() => started?,
    }
    let (stop, stopping) = oneshot::channel::<()>();
    let server = axum::serve(listener, app).with_graceful_shutdown(async {
        let _ = stopping.await;
    });
    let mut server = pin!(server.into_future());
    tokio::select! {
        biased;
        () = &mut signal => {}
        ended = &mut server => {
            punctual.shutdown().await;
            let error = Error::unavailable("the server ended without a signal");
            return Err(match ended {
                Ok(()) => error,
                Err(cause) => error.caused_by(cause),
            });
        }
    }
    let _ = stop.send(());
    let mut shutdown = pin!(punctual.shutdown());
    let (stopped, server_ended) = tokio::select! {
        stopped = &mut shutdown => (stopped, false),
        _ = &mut server => (shutdown.await, true),
    };
    if !server_ended {
        let clock = SystemClock;
        let _ = within(&clock, add(clock.now(), REQUEST_GRACE), server).await;
    }
    Ok(stopped)
}
