//! Stopwatch: the duration of a step; the only place in the tools that reads a clock.
//!
//! The product takes its time from a `Clock`; a tool that measures the compiler does not need one, so the lint is
//! lifted here and nowhere else in this crate.

use std::time::{Duration, Instant};

pub(crate) struct Stopwatch {
    started: Instant,
}

impl Stopwatch {
    #[allow(clippy::disallowed_methods, reason = "measures the tools themselves, decides nothing")]
    pub(crate) fn start() -> Self {
        Self { started: Instant::now() }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}
