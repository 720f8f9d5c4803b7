//! Activity of one connection: whether requests are in flight, and the deadline of the client. The instants are
//! computed here; the timer is in `connection.rs`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::Version;
use jiff::Timestamp;
use punctual::Clock;
use punctual::clock::add;

use super::Timeouts;

/// Reason for closing an overdue connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overdue {
    /// The first request, or the rest of a header, was not received.
    Header,
    /// No further request was received.
    Idle,
    /// The client does not read the response.
    Write,
}

/// Phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No request was received yet.
    Opening,
    /// A part of a request header was received.
    Reading,
    /// Requests are in flight.
    Busy,
    /// Every request has a response.
    Idle,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    since: Timestamp,
    requests: usize,
    is_http2: bool,
    /// Since when the client reads no bytes.
    stalled_since: Option<Timestamp>,
}

/// Activity of one connection, shared by its stream, its requests and its timer.
#[derive(Debug)]
pub(super) struct Activity {
    state: Mutex<State>,
    timeouts: Timeouts,
    clock: Arc<dyn Clock>,
}

impl Activity {
    /// Returns the activity of a connection that was accepted now.
    pub(super) fn new(timeouts: Timeouts, clock: Arc<dyn Clock>) -> Arc<Self> {
        let state = State {
            phase: Phase::Opening,
            since: clock.now(),
            requests: 0,
            is_http2: false,
            stalled_since: None,
        };
        Arc::new(Self { state: Mutex::new(state), timeouts, clock })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records received bytes. On an idle connection they begin a header; on HTTP/2 they may be a ping, which
    /// does not reset the idle timer.
    pub(super) fn received(&self) {
        let mut state = self.state();
        if state.phase == Phase::Idle && !state.is_http2 {
            state.phase = Phase::Reading;
            state.since = self.clock.now();
        }
    }

    /// Records that the client reads no bytes.
    pub(super) fn stalled(&self) {
        let mut state = self.state();
        if state.stalled_since.is_none() {
            state.stalled_since = Some(self.clock.now());
        }
    }

    /// Records that the client read bytes.
    pub(super) fn sent(&self) {
        let mut state = self.state();
        if state.stalled_since.is_some() {
            state.stalled_since = None;
        }
    }

    /// Records the begin of a request; it ends when the guard is dropped.
    pub(super) fn begin(self: &Arc<Self>, version: Version) -> RequestGuard {
        let mut state = self.state();
        state.requests += 1;
        state.phase = Phase::Busy;
        state.is_http2 = version == Version::HTTP_2;
        RequestGuard(self.clone())
    }

    fn end(&self) {
        let mut state = self.state();
        state.requests = state.requests.saturating_sub(1);
        if state.requests == 0 {
            state.phase = Phase::Idle;
            state.since = self.clock.now();
        }
    }

    /// Returns the deadline of the connection and the reason, if it has one.
    pub(super) fn deadline(&self) -> Option<(Timestamp, Overdue)> {
        let state = self.state();
        let timeouts = &self.timeouts;
        let waiting = match state.phase {
            Phase::Opening | Phase::Reading => {
                Some((add(state.since, timeouts.header), Overdue::Header))
            }
            Phase::Idle => Some((add(state.since, timeouts.idle), Overdue::Idle)),
            Phase::Busy => None,
        };
        let stalled = state.stalled_since.map(|at| (add(at, timeouts.write), Overdue::Write));
        [waiting, stalled].into_iter().flatten().min_by_key(|(at, _)| *at)
    }

    /// Returns since when no request is in flight.
    pub(super) fn waiting_since(&self) -> Option<Timestamp> {
        let state = self.state();
        (state.phase != Phase::Busy).then_some(state.since)
    }
}

/// A request in flight.
#[derive(Debug)]
pub(super) struct RequestGuard(Arc<Activity>);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use punctual::ManualClock;

    use super::*;

    const TIMEOUTS: Timeouts = Timeouts {
        header: Duration::from_secs(10),
        idle: Duration::from_secs(75),
        write: Duration::from_secs(30),
    };

    #[test]
    fn each_phase_has_its_own_deadline() {
        let clock = Arc::new(ManualClock::new("2026-03-01T12:00:00Z".parse().unwrap()));
        let activity = Activity::new(TIMEOUTS, clock.clone());
        let after = |seconds| add(clock.now(), Duration::from_secs(seconds));
        assert_eq!(activity.deadline(), Some((after(10), Overdue::Header)), "silent");
        activity.received();
        clock.advance(Duration::from_secs(4));
        assert_eq!(activity.deadline(), Some((after(6), Overdue::Header)), "half a header");
        let first = activity.begin(Version::HTTP_11);
        assert_eq!((activity.deadline(), activity.waiting_since()), (None, None));
        activity.stalled();
        clock.advance(Duration::from_secs(1));
        activity.stalled();
        assert_eq!(activity.deadline(), Some((after(29), Overdue::Write)));
        activity.sent();
        assert_eq!(activity.deadline(), None);
        drop(first);
        assert_eq!(activity.deadline(), Some((after(75), Overdue::Idle)));
        activity.received();
        assert_eq!(activity.deadline(), Some((after(10), Overdue::Header)), "the next header");
        let (one, two) = (activity.begin(Version::HTTP_2), activity.begin(Version::HTTP_2));
        drop(one);
        assert_eq!(activity.deadline(), None, "one stream is still open");
        drop(two);
        activity.received();
        assert_eq!(activity.deadline(), Some((after(75), Overdue::Idle)), "a ping");
        assert_eq!(activity.waiting_since(), Some(clock.now()));
    }
}
