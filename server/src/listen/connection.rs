//! One connection: the TLS handshake where there is one, HTTP/1.1 or HTTP/2 on it, and its end when it is overdue, has
//! to make room, or the server stops.

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
use super::admission::Place;
use super::stream::{ReportingBody, ReportingStream};
use crate::tls::Tls;

/// The most requests at once on one connection of HTTP/2.
const STREAMS_MAX: u32 = 128;
/// The most bytes of the headers of a request on HTTP/2.
const HEADERS_BYTES_MAX: u32 = 64 * 1024;
/// How often a connection of HTTP/2 is asked whether the client is still there, and how long it may take to answer.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// What every connection of a socket shares.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) router: Router,
    pub(super) builder: Builder<TokioExecutor>,
    pub(super) timeouts: Timeouts,
    pub(super) tls: Option<Tls>,
    pub(super) clock: Arc<dyn Clock>,
}

/// Returns how HTTP is spoken. The timeouts of headers are our own: they also hold before the first byte.
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

/// A connection that was let in.
pub(super) struct Accepted {
    pub(super) stream: TcpStream,
    pub(super) peer: SocketAddr,
    pub(super) activity: Arc<Activity>,
    pub(super) place: Place,
}

impl Server {
    /// Serves a connection to its end. `stopping` lets the requests under way end.
    pub(super) async fn serve(self, accepted: Accepted, stopping: impl Future<Output = ()>) {
        let Accepted { stream, peer, activity, place } = accepted;
        let Some(tls) = &self.tls else {
            return self.speak(stream, (peer, activity, &place), stopping).await;
        };
        let clock = &*self.clock;
        let shaken = within(clock, add(clock.now(), self.timeouts.header), tls.accept(stream));
        match shaken.await {
            Some(Ok(stream)) => self.speak(stream, (peer, activity, &place), stopping).await,
            Some(Err(error)) => tracing::debug!(%peer, %error, "a TLS handshake failed"),
            None => place.counters().overdue(Overdue::Header),
        }
    }

    async fn speak<S>(
        &self,
        stream: S,
        (peer, activity, place): (SocketAddr, Arc<Activity>, &Place),
        stopping: impl Future<Output = ()>,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let stream = ReportingStream { inner: stream, activity: activity.clone() };
        let (router, reporting) = (self.router.clone(), activity.clone());
        let service = service_fn(move |mut request: Request<Incoming>| {
            let ongoing = reporting.begin(request.version());
            request.extensions_mut().insert(ConnectInfo(peer));
            name_host(&mut request);
            let answering = router.clone().oneshot(request.map(Body::new));
            async move {
                let response: Response<Body> = answering.await?;
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
            tracing::debug!(%peer, ?why, "a connection was closed because its client is too slow");
        }
    }
}

/// Puts the name that a request of HTTP/2 was sent to where requests of HTTP/1.1 have it: the checks of the origin
/// compare it with what a browser says.
fn name_host<B>(request: &mut Request<B>) {
    let authority = request.uri().authority().map(Authority::as_str);
    let named = authority.and_then(|name| HeaderValue::from_str(name).ok());
    if let Some(named) = named
        && !request.headers().contains_key(HOST)
    {
        request.headers_mut().insert(HOST, named);
    }
}

/// Wakes when a connection is overdue.
struct Timer {
    activity: Arc<Activity>,
    /// How often is looked at least: what ends on HTTP/2 does not wake the connection.
    look_interval: Duration,
    clock: Arc<dyn Clock>,
    sleep: Option<(Timestamp, Sleep)>,
}

type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Timer {
    fn new(activity: Arc<Activity>, look_interval: Duration, clock: Arc<dyn Clock>) -> Self {
        Self { activity, look_interval, clock, sleep: None }
    }

    /// Returns why the connection is overdue, when it is.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Overdue> {
        // A timer that wakes too early costs less than a new one for every request.
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
        // The new timer has to be polled once to wake anybody.
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn arm(&mut self, deadline: Option<(Timestamp, Overdue)>) {
        let look_at = || add(self.clock.now(), self.look_interval);
        let at = deadline.map_or_else(look_at, |(at, _)| at);
        let clock = self.clock.clone();
        self.sleep = Some((at, Box::pin(async move { clock.sleep_until(at).await })));
    }
}
