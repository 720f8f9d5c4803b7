//! Server of a process: HTTP server and process start together and, at one signal, stop together.

use std::convert::Infallible;
use std::future::IntoFuture;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use axum::serve::{IncomingStream, Listener};
use punctual::clock::{add, within};
use punctual::{Error, Punctual, Result, ShutdownReport};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tower_service::Service;

/// Default of [`Serve::request_grace`].
pub const REQUEST_GRACE: Duration = Duration::from_secs(10);

/// HTTP server and process that start together and stop together.
///
/// The application is a [`Router`], or a make service such as
/// [`Router::into_make_service_with_connect_info`]. The listener is one of tokio, or any other [`Listener`], for
/// example one that accepts TLS.
///
/// ```no_run
/// use std::time::Duration;
/// use axum::Router;
/// use punctual::Punctual;
/// use punctual_axum::Serve;
///
/// # async fn run(punctual: Punctual, app: Router) -> Result<(), Box<dyn std::error::Error>> {
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
/// let stopped = Serve::new(listener, app)
///     .lame_duck(Duration::from_secs(5))
///     .run(&punctual, punctual::signalled())
///     .await?;
/// println!("{stopped}");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "nothing is served until it is run"]
pub struct Serve<L, M> {
    listener: L,
    app: M,
    lame_duck: Duration,
    request_grace: Duration,
}

impl<L, M> Serve<L, M> {
    /// Returns a server of an application that is not started yet.
    pub fn new(listener: L, app: M) -> Self {
        Self { listener, app, lame_duck: Duration::ZERO, request_grace: REQUEST_GRACE }
    }

    /// Sets for how long new connections are still accepted after the signal; by default not at all. Meanwhile
    /// `/health/ready` returns 503, so that a load balancer stops sending requests before the port is closed.
    pub fn lame_duck(mut self, duration: Duration) -> Self {
        self.lame_duck = duration;
        self
    }

    /// Sets how long open requests may continue after the process has stopped and the port is closed; then they are
    /// dropped. The default is [`REQUEST_GRACE`].
    pub fn request_grace(mut self, duration: Duration) -> Self {
        self.request_grace = duration;
        self
    }

    /// Starts the process, serves the application, and stops both when the signal comes.
    ///
    /// From the signal on no new message is claimed, and after [`Serve::lame_duck`] no connection is accepted. Open
    /// requests and running handlers finish concurrently: handlers within the times of
    /// [`Options`](punctual::Options), requests within the same and [`Serve::request_grace`] more. A request may still
    /// publish meanwhile; what it publishes is stored and handled by the next process.
    pub async fn run<S>(
        self,
        punctual: &Punctual,
        signal: impl Future<Output = ()>,
    ) -> Result<ShutdownReport>
    where
        L: Listener,
        L::Addr: std::fmt::Debug,
        M: for<'a> Service<IncomingStream<'a, L>, Error = Infallible, Response = S>
            + Send
            + 'static,
        for<'a> <M as Service<IncomingStream<'a, L>>>::Future: Send,
        S: Service<Request, Response = Response, Error = Infallible> + Clone + Send + 'static,
        S::Future: Send,
    {
        let mut signal = pin!(signal);
        tokio::select! {
            biased;
            () = &mut signal => return Ok(punctual.shutdown().await),
            started = punctual.start() => started?,
        }
        let (close, closing) = oneshot::channel::<()>();
        let server = axum::serve(self.listener, self.app).with_graceful_shutdown(async {
            let _ = closing.await;
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
        let clock = punctual.clock();
        let close_later = async {
            if !self.lame_duck.is_zero() {
                clock.sleep_until(add(clock.now(), self.lame_duck)).await;
            }
            let _ = close.send(());
        };
        let mut stopping = pin!(async { tokio::join!(punctual.shutdown(), close_later).0 });
        let (stopped, server_ended) = tokio::select! {
            stopped = &mut stopping => (stopped, false),
            _ = &mut server => (stopping.await, true),
        };
        if !server_ended {
            let _ = within(&*clock, add(clock.now(), self.request_grace), server).await;
        }
        Ok(stopped)
    }
}

/// Runs [`Serve`] with its defaults: starts the process, serves the application, and stops both when the signal
/// comes.
pub async fn serve_until(
    listener: TcpListener,
    app: Router,
    punctual: &Punctual,
    signal: impl Future<Output = ()>,
) -> Result<ShutdownReport> {
    Serve::new(listener, app).run(punctual, signal).await
}
