//! The socket: binds, accepts connections within their limits, serves until told to stop, and lets requests under way
//! end. No client can keep a connection without using it, or all of them for itself.

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
use connection::{Accepted, Server, http};

/// How long nothing is accepted after the system had no files or memory left for a connection.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(200);
/// How often failures to accept are written to the log.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// How long a client may take.
#[derive(Clone, Copy, Debug)]
struct Timeouts {
    /// To send the header of a request.
    header: Duration,
    /// To send a further request.
    idle: Duration,
    /// To read some of an answer.
    write: Duration,
}

/// A bound socket that does not serve yet.
pub struct Listening {
    listener: TcpListener,
    address: SocketAddr,
    connections: ConnectionsConfig,
    counters: Arc<ConnectionCounters>,
    tls: Option<Tls>,
}

/// Binds an address. Connections have the limits of a configuration that does not mention them.
pub async fn listen(address: SocketAddr) -> Result<Listening> {
    let listener = TcpListener::bind(address).await.map_err(|error| {
        let way_out = match error.kind() {
            std::io::ErrorKind::AddrInUse => "another program listens there; choose another port",
            std::io::ErrorKind::PermissionDenied => {
                "ports below 1024 need a privilege; choose another one"
            }
            _ => "check the address",
        };
        Error::unavailable(format!("cannot listen on {address}: {way_out}")).caused_by(error)
    })?;
    let address = listener.local_addr().map_err(|error| {
        Error::internal("a bound socket does not know its address").caused_by(error)
    })?;
    let (connections, counters) = (ConnectionsConfig::default(), Arc::default());
    Ok(Listening { listener, address, connections, counters, tls: None })
}

impl Listening {
    /// Where it listens; the port that was found when none was named.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Limits connections as a configuration says.
    #[must_use]
    pub fn limited(self, connections: ConnectionsConfig) -> Self {
        Self { connections, ..self }
    }

    /// Counts connections there.
    pub(crate) fn counted(self, counters: Arc<ConnectionCounters>) -> Self {
        Self { counters, ..self }
    }

    /// Speaks TLS only, when there is a certificate.
    pub(crate) fn encrypted(self, tls: Option<Tls>) -> Self {
        Self { tls, ..self }
    }

    /// Serves until the signal, then until the requests under way have ended. Failures to accept a connection do not
    /// end it.
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
        // New connections are refused by the system from now on.
        drop(listener);
        stop.send_replace(true);
        while tasks.join_next().await.is_some() {}
        Ok(())
    }
}

/// Lets a connection in; one that is refused is closed.
fn admit(
    admission: &Arc<Admission>,
    server: &Server,
    (stream, peer): (TcpStream, SocketAddr),
) -> Option<Accepted> {
    let activity = Activity::new(server.timeouts, server.clock.clone());
    let place = admission.admit(peer.ip(), &activity)?;
    Some(Accepted { stream, peer, activity, place })
}

/// Returns how many connections there may be: as configured, and never so many that no files are left for work.
fn limit(connections: &ConnectionsConfig) -> usize {
    let Some(files) = file_limit::current() else { return connections.limit };
    let most = file_limit::for_connections(files);
    if connections.limit > most {
        tracing::info!(
            configured = connections.limit,
            limit = most,
            open_files = files,
            "fewer connections than server.connections.limit are accepted, so that files are left for work"
        );
    }
    connections.limit.min(most)
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
    /// Returns how long to wait after a failure, which is logged every now and then.
    fn pause(&mut self, error: &io::Error, now: Timestamp) -> Duration {
        use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
        if matches!(
            error.kind(),
            ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted
        ) {
            // The client went away before it was accepted; the next one may be there already.
            return Duration::ZERO;
        }
        if self.logged_at.is_none_or(|at| between(at, now) >= LOG_INTERVAL) {
            self.logged_at = Some(now);
            tracing::warn!(%error, "a connection could not be accepted; this is tried again");
        }
        EXHAUSTED_PAUSE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Finding F4 of the security review.
    #[test]
    fn no_files_left_is_waited_for_and_said_every_now_and_then() {
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
