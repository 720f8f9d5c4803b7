//! Run of a process in one call: start, work until a signal, and graceful shutdown.

use std::fmt;
use std::pin::pin;

use super::{Punctual, ShutdownReport};
use crate::error::Result;

impl Punctual {
    /// Starts, works until the signal, and shuts down. A signal during the start, for example while it waits for a
    /// transport, ends it without an error.
    ///
    /// Dropping this future leaves the services running until the process is shut down or dropped.
    pub async fn run_until(&self, signal: impl Future<Output = ()>) -> Result<ShutdownReport> {
        let mut signal = pin!(signal);
        tokio::select! {
            biased;
            () = &mut signal => return Ok(self.shutdown().await),
            started = self.start() => started?,
        }
        signal.await;
        Ok(self.shutdown().await)
    }

    /// Runs like [`Punctual::run_until`] until the operating system asks the process to end; see
    /// [`signalled`](crate::signalled).
    #[cfg(feature = "signals")]
    pub async fn run(&self) -> Result<ShutdownReport> {
        self.run_until(signalled()).await
    }
}

/// Waits until the operating system asks the process to end: by Ctrl-C, or on Unix also by `SIGTERM`. From the
/// first call on neither ends the process by itself. When no signal handler can be installed it waits for ever.
#[cfg(feature = "signals")]
pub async fn signalled() {
    let interrupted = async {
        if let Err(error) = tokio::signal::ctrl_c().await {
            tracing::warn!(target: "punctual", %error, "cannot install the handler for Ctrl-C");
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        match signal(SignalKind::terminate()) {
            Ok(mut terminated) => tokio::select! {
                () = interrupted => {}
                _ = terminated.recv() => {}
            },
            Err(error) => {
                tracing::warn!(target: "punctual", %error, "cannot install the handler for SIGTERM");
                interrupted.await;
            }
        }
    }
    #[cfg(not(unix))]
    interrupted.await;
}

impl ShutdownReport {
    /// Returns whether all attempts finished by themselves.
    pub fn is_clean(&self) -> bool {
        self.interrupted == 0 && self.abandoned == 0
    }
}

impl fmt::Display for ShutdownReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_clean() {
            return f.write_str("stopped; everything that ran has finished");
        }
        let Self { interrupted, abandoned } = self;
        let attempts = if *interrupted == 1 { "attempt was" } else { "attempts were" };
        write!(f, "stopped; {interrupted} {attempts} interrupted")?;
        if *abandoned > 0 {
            write!(f, ", {abandoned} of them are left to other processes")?;
        }
        Ok(())
    }
}
