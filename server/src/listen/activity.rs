//! The activity of one connection: whether a request is under way, and until when the client has to send or read
//! something. The instants are computed here; the timer is in `connection.rs`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::Version;
use jiff::Timestamp;
use punctual::Clock;
use punctual::clock::add;

use super::Timeouts;

/// Why a connection is closed although neither side ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overdue {
    /// The first request, or the rest of a header, did not come.
    Header,
    /// No further request came.
    Idle,
    /// The client does not read the answer.
    Write,
}

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No request has come yet.
    Opening,
    /// A part of a request's header has come.
    Reading,
    /// Requests are under way.
    Busy,
    /// Every request has been answered.
    Idle,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    since: Timestamp,
    requests: usize,
    is_http2: bool,
    /// Since when the client takes no bytes.
    stalled_since: Option<Timestamp>,
}

/// What one connection is doing, shared by its stream, its requests and its timer.
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

    /// Notes that bytes came. While no request is under way they are the beginning of a header; on HTTP/2 they may
    /// be a ping, and the timer of the idle connection goes on.
    pub(super) fn received(&self) {
        let mut state = self.state();
        if state.phase == Phase::Idle && !state.is_http2 {
            state.phase = Phase::Reading;
            state.since = self.clock.now();
        }
    }

    /// Notes that the client takes no bytes.
    pub(super) fn stalled(&self) {
        let mut state = self.state();
        if state.stalled_since.is_none() {
            state.stalled_since = Some(self.clock.now());
        }
    }

    /// Notes that the client took bytes.
    pub(super) fn sent(&self) {
        let mut state = self.state();
        if state.stalled_since.is_some() {
            state.stalled_since = None;
        }
    }

    /// Notes that a request began; it ends when what is returned is dropped.
    pub(super) fn begin(self: &Arc<Self>, version: Version) -> Ongoing {
        let mut state = self.state();
        state.requests += 1;
        state.phase = Phase::Busy;
        state.is_http2 = version == Version::HTTP_2;
        Ongoing(self.clone())
    }

    fn end(&self) {
        let mut state = self.state();
        state.requests = state.requests.saturating_sub(1);
        if state.requests == 0 {
            state.phase = Phase::Idle;
            state.since = self.clock.now();
        }
    }

    /// Returns when the connection is overdue, and why, unless something happens before.
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

    /// Returns since when no request is under way.
    pub(super) fn waiting_since(&self) -> Option<Timestamp> {
        let state = self.state();
        (state.phase != Phase::Busy).then_some(state.since)
    }
}

/// A request under way.
#[derive(Debug)]
pub(super) struct Ongoing(Arc<Activity>);

impl Drop for Ongoing {
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
