//! Crash points: places in a worker at which it ends without warning, when it was told to.
//!
//! A kill from outside hits wherever it hits, which is nearly always in a handler. The moments that
//! matter most are short, so a worker can also be given a fuse: at which point, and at which visit.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};

/// A moment in the life of a message at which its worker may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Point {
    /// The claim has been stored; no handler has begun.
    Claimed,
    /// The handler has begun.
    Started,
    /// The handler is done; nothing has been stored about it.
    Finished,
    /// The settlement is being stored: before, in or after the commit.
    Settling,
    /// The settlement has been stored; the worker does not know yet.
    Settled,
    /// A lost message was taken over; nothing has been decided about it.
    Reclaimed,
    /// The messages of a request are being stored: before, in or after the commit.
    Publishing,
    /// The messages of a request have been stored; its answer has not.
    Published,
    /// The record of an `Idempotency-Key` is being written, without or with the answer.
    Recording,
}

impl Point {
    /// Every point of a server that publishes for others.
    pub const OF_SERVERS: [Self; 3] = [Self::Publishing, Self::Published, Self::Recording];

    /// Every point of a worker.
    pub const ALL: [Self; 6] = [
        Self::Claimed,
        Self::Started,
        Self::Finished,
        Self::Settling,
        Self::Settled,
        Self::Reclaimed,
    ];

    /// The point in one word.
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

    /// What is between the point and the next, for people.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Claimed => "between claim and start",
            Self::Started => "in the handler",
            Self::Finished => "between handler and settle",
            Self::Settling => "during settle",
            Self::Settled => "after settle, answer unheard",
            Self::Reclaimed => "while rescuing",
            Self::Publishing => "while messages are stored",
            Self::Published => "between messages and answer",
            Self::Recording => "while the record of a key is written",
        }
    }
}

/// When a worker ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FuseLength {
    /// Where.
    pub point: Point,
    /// At which visit, from 1.
    pub visit: u32,
    /// How long after the visit; for the points that mean "in the middle".
    pub microseconds: u64,
}

impl fmt::Display for FuseLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.point.as_str(), self.visit, self.microseconds)
    }
}

impl FromStr for FuseLength {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let [point, visit, microseconds] = parts[..] else {
            bail!("a fuse looks like settling:3:500, not {text:?}");
        };
        let mut all = Point::ALL.into_iter().chain(Point::OF_SERVERS);
        let known = all.find(|known| known.as_str() == point);
        Ok(Self {
            point: known.with_context(|| format!("there is no crash point {point:?}"))?,
            visit: visit.parse()?,
            microseconds: microseconds.parse()?,
        })
    }
}

/// Counts visits and ends the process at the one it was set to.
#[derive(Clone, Debug, Default)]
pub struct Fuse {
    set: Option<Arc<Set>>,
}

#[derive(Debug)]
struct Set {
    length: FuseLength,
    visits: AtomicU32,
}

impl Fuse {
    /// A fuse of a length; without one it never ends anything.
    pub fn new(length: Option<FuseLength>) -> Self {
        let set = length.map(|length| Arc::new(Set { length, visits: AtomicU32::new(0) }));
        Self { set }
    }

    /// Passes a point. May not return.
    pub fn visit(&self, point: Point) {
        let Some(set) = self.set.as_deref().filter(|set| set.length.point == point) else {
            return;
        };
        if set.visits.fetch_add(1, Ordering::Relaxed) + 1 != set.length.visit {
            return;
        }
        if set.length.microseconds == 0 {
            std::process::abort();
        }
        let wait = Duration::from_micros(set.length.microseconds);
        // A thread of its own: the runtime's tasks go on meanwhile, which is what is to be hit.
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
        for point in Point::ALL.into_iter().chain(Point::OF_SERVERS) {
            let length = FuseLength { point, visit: 3, microseconds: 50 };
            assert_eq!(length.to_string().parse::<FuseLength>().unwrap(), length);
        }
        for wrong in ["", "settling", "nowhere:1:0", "settling:x:0", "settling:1:0:0"] {
            assert!(wrong.parse::<FuseLength>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn other_points_and_other_visits_pass() {
        let length = FuseLength { point: Point::Settled, visit: 3, microseconds: 0 };
        let fuse = Fuse::new(Some(length));
        fuse.visit(Point::Claimed);
        fuse.visit(Point::Settled);
        fuse.visit(Point::Settled);
        Fuse::new(None).visit(Point::Settled);
    }
}
