//! Fuse: aborts a process at a chosen crash point.
//!
//! A kill from outside nearly always hits a handler, but the most important moments are short. A process can
//! therefore get a fuse with a crash point and the number of the visit to abort at.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};

/// Point in the processing of a message or request at which its process can be aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CrashPoint {
    /// The claim was stored; no handler has started.
    Claimed,
    /// The handler has started.
    Started,
    /// The handler has ended; nothing was stored yet.
    Finished,
    /// The settlement is being stored: before, in or after the commit.
    Settling,
    /// The settlement was stored; the worker has no response yet.
    Settled,
    /// A lost message was reclaimed; it is not settled yet.
    Reclaimed,
    /// The messages of a request are being stored: before, in or after the commit.
    Publishing,
    /// The messages of a request were stored; its response was not recorded yet.
    Published,
    /// The record of an `Idempotency-Key` is being written, with or without the response.
    Recording,
}

impl CrashPoint {
    /// Crash points of a server.
    pub const SERVER_POINTS: [Self; 3] = [Self::Publishing, Self::Published, Self::Recording];

    /// Crash points of a worker.
    pub const WORKER_POINTS: [Self; 6] = [
        Self::Claimed,
        Self::Started,
        Self::Finished,
        Self::Settling,
        Self::Settled,
        Self::Reclaimed,
    ];

    /// Returns the name of the point in fuse settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Started => "started",
            Self::Finished => "finished",
            Self::Settling => "settling",
            Self::Settled => "settled",
            Self::Reclaimed => "reclaimed",
            Self::Publishing => "publishing",
            Self::Published => "published",
            Self::Recording => "recording",
        }
    }

    /// Returns the label of the point in tables.
    pub fn label(self) -> &'static str {
        match self {
            Self::Claimed => "between claim and start",
            Self::Started => "in the handler",
            Self::Finished => "between handler and settle",
            Self::Settling => "during settle",
            Self::Settled => "after settle, before the response",
            Self::Reclaimed => "while rescuing",
            Self::Publishing => "while messages are stored",
            Self::Published => "between messages and response",
            Self::Recording => "while the record of a key is written",
        }
    }
}

/// Setting of a fuse, written as `settling:3:500`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FuseSetting {
    /// Crash point.
    pub point: CrashPoint,
    /// Number of the visit to abort at, from 1.
    pub visit: u32,
    /// Delay after the visit, in microseconds, to abort in the middle of a call.
    pub microseconds: u64,
}

impl fmt::Display for FuseSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.point.as_str(), self.visit, self.microseconds)
    }
}

impl FromStr for FuseSetting {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let [point, visit, microseconds] = parts[..] else {
            bail!("a fuse looks like settling:3:500, not {text:?}");
        };
        let mut all = CrashPoint::WORKER_POINTS.into_iter().chain(CrashPoint::SERVER_POINTS);
        let known = all.find(|known| known.as_str() == point);
        Ok(Self {
            point: known.with_context(|| format!("there is no crash point {point:?}"))?,
            visit: visit.parse()?,
            microseconds: microseconds.parse()?,
        })
    }
}

/// Counts visits of a crash point and aborts the process at the chosen one.
#[derive(Clone, Debug, Default)]
pub struct Fuse {
    armed: Option<Arc<ArmedFuse>>,
}

#[derive(Debug)]
struct ArmedFuse {
    setting: FuseSetting,
    visits: AtomicU32,
}

impl Fuse {
    /// Returns a fuse; without a setting it never aborts.
    pub fn new(setting: Option<FuseSetting>) -> Self {
        let armed =
            setting.map(|setting| Arc::new(ArmedFuse { setting, visits: AtomicU32::new(0) }));
        Self { armed }
    }

    /// Visits a crash point; aborts the process when it is the chosen visit.
    pub fn visit(&self, point: CrashPoint) {
        let Some(armed) = self.armed.as_deref().filter(|armed| armed.setting.point == point) else {
            return;
        };
        if armed.visits.fetch_add(1, Ordering::Relaxed) + 1 != armed.setting.visit {
            return;
        }
        if armed.setting.microseconds == 0 {
            std::process::abort();
        }
        let wait = Duration::from_micros(armed.setting.microseconds);
        // A thread of its own: tasks of the runtime continue meanwhile, so that the abort hits them.
        thread::spawn(move || {
            let (_never, ended) = mpsc::channel::<()>();
            let _ = ended.recv_timeout(wait);
            std::process::abort();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fuse_reads_back_as_it_was_written() {
        for point in CrashPoint::WORKER_POINTS.into_iter().chain(CrashPoint::SERVER_POINTS) {
            let setting = FuseSetting { point, visit: 3, microseconds: 50 };
            assert_eq!(setting.to_string().parse::<FuseSetting>().unwrap(), setting);
        }
        for wrong in ["", "settling", "nowhere:1:0", "settling:x:0", "settling:1:0:0"] {
            assert!(wrong.parse::<FuseSetting>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn other_points_and_other_visits_pass() {
        let setting = FuseSetting { point: CrashPoint::Settled, visit: 3, microseconds: 0 };
        let fuse = Fuse::new(Some(setting));
        fuse.visit(CrashPoint::Claimed);
        fuse.visit(CrashPoint::Settled);
        fuse.visit(CrashPoint::Settled);
        Fuse::new(None).visit(CrashPoint::Settled);
    }
}
