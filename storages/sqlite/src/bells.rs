//! Who is woken, and when. A line rings only for something earlier than what its sleepers know: the
//! answer they were given last, or what rang last. What nobody was told about rings.
//!
//! Whoever asks makes the line forget what it told before reading, and only sets it again when nobody
//! else asked meanwhile; so whatever is committed during the read rings, and none is missed.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use punctual::jiff::Timestamp;
use punctual::storage::{Bell, Line, Wakeup};
use punctual_rows::instant::micros_up;

use crate::effects::Effects;

/// Told to nobody: everything rings.
const UNTOLD: i64 = i64::MAX;

/// The bells of every line somebody has listened to.
#[derive(Debug, Default)]
pub(crate) struct Bells {
    lines: Mutex<HashMap<Line, Listened>>,
}

#[derive(Debug)]
struct Listened {
    bell: Bell,
    told: i64,
    asked: u64,
}

impl Bells {
    /// A handle that hears a line.
    pub(crate) fn wakeup(&self, line: &Line) -> Wakeup {
        let mut lines = self.lock();
        if let Some(listened) = lines.get(line) {
            return listened.bell.wakeup();
        }
        let (bell, wakeup) = Wakeup::new();
        lines.insert(line.clone(), Listened { bell, told: UNTOLD, asked: 0 });
        wakeup
    }

    /// Somebody is about to look when lines are due.
    pub(crate) fn asking(&self, asked: &[Line]) -> Vec<u64> {
        let mut lines = self.lock();
        let count = |line| {
            lines.get_mut(line).map_or(0, |listened| {
                listened.told = UNTOLD;
                listened.asked += 1;
                listened.asked
            })
        };
        asked.iter().map(count).collect()
    }

    /// What they were told.
    pub(crate) fn told(&self, asked: &[Line], counts: &[u64], due: &[Option<Timestamp>]) {
        let mut lines = self.lock();
        for ((line, count), due) in asked.iter().zip(counts).zip(due) {
            if let Some(listened) = lines.get_mut(line).filter(|line| line.asked == *count) {
                listened.told = due.map_or(UNTOLD, micros_up);
            }
        }
    }

    /// Rings for what a committed transaction has changed.
    pub(crate) fn tell(&self, effects: &Effects) {
        let mut rung = Vec::new();
        {
            let mut lines = self.lock();
            for queue in &effects.taken {
                forget(&mut lines, &Line::Queue(queue.clone()));
            }
            if effects.jobs_moved {
                forget(&mut lines, &Line::Jobs);
            }
            for (queue, at) in &effects.due {
                rung.extend(news(&mut lines, &Line::Queue(queue.clone()), *at));
            }
            if let Some(at) = effects.jobs_due {
                rung.extend(news(&mut lines, &Line::Jobs, at));
            }
            if effects.leases {
                rung.extend(lines.get(&Line::Leases).map(|listened| listened.bell.clone()));
            }
        }
        for bell in rung {
            bell.ring();
        }
    }

    /// The lines somebody has listened to.
    pub(crate) fn lines(&self) -> Vec<Line> {
        self.lock().keys().cloned().collect()
    }

    /// Somebody else wrote, and this is when lines are due now.
    pub(crate) fn hear(&self, heard: &[Line], due: &[Option<Timestamp>], has_cancels: bool) {
        let mut rung = Vec::new();
        {
            let mut lines = self.lock();
            for (line, due) in heard.iter().zip(due) {
                rung.extend(due.and_then(|due| news(&mut lines, line, micros_up(due))));
            }
            let leases = lines.get(&Line::Leases).filter(|_| has_cancels);
            rung.extend(leases.map(|listened| listened.bell.clone()));
        }
        for bell in rung {
            bell.ring();
        }
    }

    /// Somebody else wrote, nobody knows what.
    pub(crate) fn ring_all(&self) {
        let bells: Vec<Bell> = {
            let mut lines = self.lock();
            let all = lines.values_mut().map(|listened| {
                listened.told = UNTOLD;
                listened.bell.clone()
            });
            all.collect()
        };
        for bell in bells {
            bell.ring();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Line, Listened>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn forget(lines: &mut HashMap<Line, Listened>, line: &Line) {
    if let Some(listened) = lines.get_mut(line) {
        listened.told = UNTOLD;
    }
}

/// The bell to ring when an instant is news to a line.
fn news(lines: &mut HashMap<Line, Listened>, line: &Line, at: i64) -> Option<Bell> {
    let listened = lines.get_mut(line).filter(|listened| at < listened.told)?;
    listened.told = at;
    Some(listened.bell.clone())
}
