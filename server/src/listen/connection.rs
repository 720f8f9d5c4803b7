//! Connection: the TLS handshake if enabled, HTTP/1.1 or HTTP/2, and its end when it is overdue, evicted, or the
//! server stops.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::header::HOST;
use axum::http::uri::Authority;
use axum::http::{HeaderValue, Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use jiff::Timestamp;
use punctual::Clock;
use punctual::clock::{add, within};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tower::ServiceExt as _;

use super::Timeouts;
use super::activity::{Activity, Overdue};
use super::admission::ConnectionSlot;
use super::stream::{ReportingBody, ReportingStream};
use crate::tls::Tls;

/// Largest number of concurrent requests on one HTTP/2 connection.
const STREAMS_MAX: u32 = 128;
/// Largest size of request headers on HTTP/2 in bytes.
const HEADERS_BYTES_MAX: u32 = 64 * 1024;
/// Interval and timeout of pings on HTTP/2.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// State shared by all connections of a socket.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) router: Router,
    pub(super) builder: Builder<TokioExecutor>,
    pub(super) timeouts: Timeouts,
    pub(super) tls: Option<Tls>,
    pub(super) clock: Arc<dyn Clock>,
}

/// Returns the HTTP protocol settings. Header timeouts are implemented here, because they also apply before the first
/// byte.
pub(super) fn http() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(None);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADERS_BYTES_MAX)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    builder
}

/// An admitted connection.
pub(super) struct AcceptedConnection {
    pub(super) stream: TcpStream,
    pub(super) peer: SocketAddr,
    pub(super) activity: Arc<Activity>,
    pub(super) place: ConnectionSlot,
}

impl Server {
    /// Serves a connection until it ends; after `stopping`, until its requests in flight have ended.
    pub(super) async fn serve(
        self,
        accepted: AcceptedConnection,
        stopping: impl Future<Output = ()>,
    ) {
        let AcceptedConnection { stream, peer, activity, place } = accepted;
        let Some(tls) = &self.tls else {
            return self.serve_http(stream, (peer, activity, &place), stopping).await;
        };
        let clock = &*self.clock;
        let handshake = within(clock, add(clock.now(), self.timeouts.header), tls.accept(stream));
        match handshake.await {
            Some(Ok(stream)) => self.serve_http(stream, (peer, activity, &place), stopping).await,
            Some(Err(error)) => tracing::debug!(%peer, %error, "a TLS handshake failed"),
            None => place.counters().overdue(Overdue::Header),
        }
    }

    async fn serve_http<S>(
        &self,
        stream: S,
        (peer, activity, place): (SocketAddr, Arc<Activity>, &ConnectionSlot),
        stopping: impl Future<Output = ()>,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let stream = ReportingStream { inner: stream, activity: activity.clone() };
        let (router, reporting) = (self.router.clone(), activity.clone());
        let service = service_fn(move |mut request: Request<Incoming>| {
            let ongoing = reporting.begin(request.version());
            request.extensions_mut().insert(ConnectInfo(peer));
            set_host(&mut request);
            let responding = router.clone().oneshot(request.map(Body::new));
            async move {
                let response: Response<Body> = responding.await?;
                let body = |inner| ReportingBody { inner, _request: ongoing };
                Ok::<_, Infallible>(response.map(body))
            }
        });
        let connection = self.builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let (mut stopping, mut evicted) = (pin!(stopping), pin!(place.evicted()));
        let mut timer = Timer::new(activity, self.timeouts.idle, self.clock.clone());
        let mut is_stopping = false;
        let overdue = poll_fn(|context| {
            if !is_stopping && stopping.as_mut().poll(context).is_ready() {
                is_stopping = true;
                connection.as_mut().graceful_shutdown();
            }
            if connection.as_mut().poll(context).is_ready()
                || evicted.as_mut().poll(context).is_ready()
            {
                return Poll::Ready(None);
            }
            timer.poll(context).map(Some)
        });
        if let Some(why) = overdue.await {
            place.counters().overdue(why);
            tracing::debug!(%peer, ?why, "a connection was closed by a timeout of the client");
        }
    }
}

/// Sets the `Host` header of an HTTP/2 request from its authority, because the origin checks read the header.
fn set_host<B>(request: &mut Request<B>) {
    let authority = request.uri().authority().map(Authority::as_str);
    let named = authority.and_then(|name| HeaderValue::from_str(name).ok());
    if let Some(named) = named
        && !request.headers().contains_key(HOST)
    {
        request.headers_mut().insert(HOST, named);
    }
}

/// Timer of the deadline of a connection.
struct Timer {
    activity: Arc<Activity>,
    /// Longest interval between checks, because the end of an HTTP/2 request does not wake the connection.
    check_interval: Duration,
    clock: Arc<dyn Clock>,
    sleep: Option<(Timestamp, Sleep)>,
}

type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Timer {
    fn new(activity: Arc<Activity>, check_interval: Duration, clock: Arc<dyn Clock>) -> Self {
        Self { activity, check_interval, clock, sleep: None }
    }

    /// Returns the reason when the connection is overdue.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Overdue> {
        // A timer that wakes too early is cheaper than a new one for every request.
        let deadline = self.activity.deadline();
        let is_early = match (&self.sleep, deadline) {
            (Some((until, _)), Some((at, _))) => *until <= at,
            (Some(_), None) => true,
            (None, _) => false,
        };
        if !is_early {
            self.arm(deadline);
        }
        let Some((_, sleep)) = &mut self.sleep else { return Poll::Pending };
        if sleep.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        let now = self.clock.now();
        match self.activity.deadline() {
            Some((at, why)) if at <= now => return Poll::Ready(why),
            deadline => self.arm(deadline),
        }
        // The new timer has to be polled once to register its waker.
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn arm(&mut self, deadline: Option<(Timestamp, Overdue)>) {
        let check_at = || add(self.clock.now(), self.check_interval);
        let at = deadline.map_or_else(check_at, |(at, _)| at);
        let clock = self.clock.clone();
        self.sleep = Some((at, Box::pin(async move { clock.sleep_until(at).await })));
    }
}
