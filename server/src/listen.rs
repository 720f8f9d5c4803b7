//! Listener of the server: binds the socket, accepts connections within their limits, serves until it is stopped,
//! and lets requests in flight end. No client can hold a connection without using it, or take all of them.

mod activity;
mod admission;
mod connection;
mod stream;

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use jiff::Timestamp;
use punctual::clock::{add, between};
use punctual::{Clock, Error, Result, SystemClock};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

pub(crate) use admission::{ConnectionCounters, counted as counted_address};

use crate::config::ConnectionsConfig;
use crate::file_limit;
use crate::tls::Tls;
use activity::Activity;
use admission::Admission;
use connection::{AcceptedConnection, Server, http};

/// Pause of accepting after the system had no files or memory for a connection.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(200);
/// Shortest interval between log lines about failures to accept.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Timeouts of a client.
#[derive(Clone, Copy, Debug)]
struct Timeouts {
    /// Sending the header of a request.
    header: Duration,
    /// Sending the next request.
    idle: Duration,
    /// Reading some bytes of a response.
    write: Duration,
}

/// A bound socket that is not serving yet.
pub struct BoundListener {
    listener: TcpListener,
    address: SocketAddr,
    connections: ConnectionsConfig,
    counters: Arc<ConnectionCounters>,
    tls: Option<Tls>,
}

/// Binds an address, with the default limits of connections.
pub async fn listen(address: SocketAddr) -> Result<BoundListener> {
    let listener = TcpListener::bind(address).await.map_err(|error| {
        let fix = match error.kind() {
            std::io::ErrorKind::AddrInUse => "another program uses the port; choose another one",
            std::io::ErrorKind::PermissionDenied => {
                "ports below 1024 need a privilege; choose another port"
            }
            _ => "check the address",
        };
        Error::unavailable(format!("cannot listen on {address}: {fix}")).caused_by(error)
    })?;
    let address = listener.local_addr().map_err(|error| {
        Error::internal("the address of a bound socket is unknown").caused_by(error)
    })?;
    let (connections, counters) = (ConnectionsConfig::default(), Arc::default());
    Ok(BoundListener { listener, address, connections, counters, tls: None })
}

impl BoundListener {
    /// Returns the bound address, with the assigned port for port 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the limits of connections.
    #[must_use]
    pub fn limited(self, connections: ConnectionsConfig) -> Self {
        Self { connections, ..self }
    }

    /// Sets the counters of connections.
    pub(crate) fn counted(self, counters: Arc<ConnectionCounters>) -> Self {
        Self { counters, ..self }
    }

    /// Sets the certificate; with one, only TLS is accepted.
    pub(crate) fn encrypted(self, tls: Option<Tls>) -> Self {
        Self { tls, ..self }
    }

    /// Serves until `signal` resolves and the requests in flight have ended. Failures to accept are retried.
    pub async fn serve(
        self,
        router: Router,
        signal: impl Future<Output = ()> + Send + 'static,
    ) -> Result<()> {
        let Self { listener, connections, counters, tls, .. } = self;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let timeouts = connections.timeouts();
        let limits = (limit(&connections), connections.limit_per_address);
        let admission = Admission::new(limits, connections.exempt, counters, clock.clone());
        let server = Server { router, builder: http(), timeouts, tls, clock: clock.clone() };
        let (stop, stopped) = watch::channel(false);
        let mut tasks: JoinSet<()> = JoinSet::new();
        let mut failures = Failures::default();
        let mut signal = pin!(signal);
        loop {
            let accepted = tokio::select! {
                () = &mut signal => break,
                Some(_) = tasks.join_next(), if !tasks.is_empty() => continue,
                accepted = listener.accept() => accepted,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    let pause = failures.pause(&error, clock.now());
                    tokio::select! {
                        () = &mut signal => break,
                        () = clock.sleep_until(add(clock.now(), pause)) => continue,
                    }
                }
            };
            if let Some(accepted) = admit(&admission, &server, (stream, peer)) {
                let mut stopped = stopped.clone();
                let stopping = async move {
                    let _ = stopped.wait_for(|stopped| *stopped).await;
                };
                tasks.spawn(server.clone().serve(accepted, stopping));
            }
        }
        // From now on the system refuses new connections.
        drop(listener);
        stop.send_replace(true);
        while tasks.join_next().await.is_some() {}
        Ok(())
    }
}

/// Admits a connection; returns none when it is refused.
fn admit(
    admission: &Arc<Admission>,
    server: &Server,
    (stream, peer): (TcpStream, SocketAddr),
) -> Option<AcceptedConnection> {
    let activity = Activity::new(server.timeouts, server.clock.clone());
    let place = admission.admit(peer.ip(), &activity)?;
    Some(AcceptedConnection { stream, peer, activity, place })
}

/// Returns the limit of connections: the configured one, reduced so that files are left for work.
fn limit(connections: &ConnectionsConfig) -> usize {
    let Some(files) = file_limit::current() else { return connections.limit };
    let max = file_limit::for_connections(files);
    if connections.limit > max {
        tracing::info!(
            configured = connections.limit,
            limit = max,
            open_files = files,
            "fewer connections than server.connections.limit are accepted, so that files are left for work"
        );
    }
    connections.limit.min(max)
}

impl ConnectionsConfig {
    fn timeouts(&self) -> Timeouts {
        Timeouts {
            header: self.header_timeout.get(),
            idle: self.idle_timeout.get(),
            write: self.write_timeout.get(),
        }
    }
}

/// Failures to accept connections.
#[derive(Debug, Default)]
struct Failures {
    logged_at: Option<Timestamp>,
}

impl Failures {
    /// Returns the pause after a failure, which is logged at a bounded rate.
    fn pause(&mut self, error: &io::Error, now: Timestamp) -> Duration {
        use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
        if matches!(
            error.kind(),
            ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted
        ) {
            // The client disconnected before it was accepted; the next one may be waiting.
            return Duration::ZERO;
        }
        if self.logged_at.is_none_or(|at| between(at, now) >= LOG_INTERVAL) {
            self.logged_at = Some(now);
            tracing::warn!(%error, "a connection could not be accepted; retrying");
        }
        EXHAUSTED_PAUSE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Finding F4 of the security review.
    #[test]
    fn exhausted_files_pause_accepting_and_are_logged_at_a_bounded_rate() {
        let mut failures = Failures::default();
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let exhausted = io::Error::from_raw_os_error(24);
        assert_eq!(failures.pause(&exhausted, now), EXHAUSTED_PAUSE);
        assert_eq!(failures.logged_at, Some(now));
        let soon = add(now, Duration::from_secs(1));
        assert_eq!(failures.pause(&exhausted, soon), EXHAUSTED_PAUSE);
        assert_eq!(failures.logged_at, Some(now), "not again at once");
        let gone = io::Error::from(io::ErrorKind::ConnectionAborted);
        assert_eq!(failures.pause(&gone, soon), Duration::ZERO);
    }
}
