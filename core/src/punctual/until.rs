//! A whole life in one call: start, work until told to stop, stop gracefully, and say how that went.

use std::fmt;
use std::pin::pin;

use super::{Punctual, ShutdownReport};
use crate::error::Result;

impl Punctual {
    /// Starts, works until the signal comes, and shuts down. A signal that comes first, also while the
    /// start still waits for a transport, ends it quietly.
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

    /// The same until the process is asked to end: Ctrl-C, or the signal of a service manager.
    #[cfg(feature = "signals")]
    pub async fn run(&self) -> Result<ShutdownReport> {
        self.run_until(signalled()).await
    }
}

/// Waits until the process is asked to end: Ctrl-C, or on Unix also `SIGTERM`. From the first call on
/// neither ends the process by itself. Where signals cannot be heard at all it waits for ever.
#[cfg(feature = "signals")]
pub async fn signalled() {
    let interrupted = async {
        if let Err(error) = tokio::signal::ctrl_c().await {
            tracing::warn!(target: "punctual", %error, "Ctrl-C cannot be heard");
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
                tracing::warn!(target: "punctual", %error, "SIGTERM cannot be heard");
                interrupted.await;
            }
        }
    }
    #[cfg(not(unix))]
    interrupted.await;
}

impl ShutdownReport {
    /// Whether everything that ran came to its own end.
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
