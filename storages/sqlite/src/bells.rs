//! Who is woken, and when. A line rings only for something earlier than what its sleepers know: the
//! answer they were given last, or what rang last. What nobody was told about rings.
//!
//! Whoever asks makes the line forget what it told before reading, and only sets it again when nobody
//! else asked meanwhile; so whatever is committed during the read rings, and none is missed. Those who ask
//! with a topic filter are told later instants than others; the latest of them counts until the next ring.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use punctual::jiff::Timestamp;
use punctual::storage::{Bell, Line, TopicFilter, Wakeup};
use punctual_rows::instant::micros_up;

use crate::effects::Effects;
use crate::marks::Marks;

/// Told to nobody: everything rings.
const UNTOLD: i64 = i64::MAX;
/// Nobody who asked with a filter sleeps.
const AWAKE: i64 = i64::MIN;
/// The most filters of a queue that are told apart.
const FILTERS_MAX: usize = 16;

/// The bells of every line somebody has listened to.
#[derive(Debug, Default)]
pub(crate) struct Bells {
    lines: Mutex<HashMap<Line, Listened>>,
    /// Where claims with a filter go on.
    pub(crate) marks: Marks,
}

#[derive(Debug)]
struct Listened {
    bell: Bell,
    told: i64,
    asked: u64,
    filtered: Filtered,
}

/// Those who ask with a filter.
#[derive(Debug)]
struct Filtered {
    /// The latest instant any of them was told since the last ring.
    told: i64,
    /// How many ask just now; they may be given an answer from before a commit.
    asking: usize,
    /// The filters of those who were told.
    topics: Vec<TopicFilter>,
}

impl Listened {
    fn new(bell: Bell) -> Self {
        let filtered = Filtered { told: AWAKE, asking: 0, topics: Vec::new() };
        Self { bell, told: UNTOLD, asked: 0, filtered }
    }
}

/// Somebody asks when lines are due.
pub(crate) struct Asking<'a> {
    bells: &'a Bells,
    lines: &'a [Line],
    /// The number of the question for each line that somebody listens to.
    counts: Vec<Option<u64>>,
}

impl Asking<'_> {
    /// What they were told.
    pub(crate) fn told(self, due: &[Option<Timestamp>]) {
        let mut lines = self.bells.lock();
        for ((line, count), due) in self.lines.iter().zip(&self.counts).zip(due) {
            let Some(listened) = lines.get_mut(&line.bell()) else { continue };
            let due = due.map_or(UNTOLD, micros_up);
            match line {
                Line::Topics(_, topics) => listened.filtered.tell(topics, due),
                _ if Some(listened.asked) == *count => listened.told = due,
                _ => {}
            }
        }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let asked = self.lines.iter().zip(&self.counts).filter(|(_, count)| count.is_some());
        let mut lines = self.bells.lock();
        for (line, _) in asked.filter(|(line, _)| matches!(line, Line::Topics(..))) {
            if let Some(listened) = lines.get_mut(&line.bell()) {
                listened.filtered.asking = listened.filtered.asking.saturating_sub(1);
            }
        }
    }
}

impl Filtered {
    fn tell(&mut self, topics: &TopicFilter, due: i64) {
        self.told = self.told.max(due);
        if !self.topics.contains(topics) && self.topics.len() < FILTERS_MAX {
            self.topics.push(topics.clone());
        }
    }
}

impl Bells {
    /// A handle that hears a line.
    pub(crate) fn wakeup(&self, line: &Line) -> Wakeup {
        let (mut lines, line) = (self.lock(), line.bell());
        if let Some(listened) = lines.get(&line) {
            return listened.bell.wakeup();
        }
        let (bell, wakeup) = Wakeup::new();
        lines.insert(line, Listened::new(bell));
        wakeup
    }

    /// Somebody is about to look when lines are due.
    pub(crate) fn asking<'a>(&'a self, asked: &'a [Line]) -> Asking<'a> {
        let mut lines = self.lock();
        let count = |line: &Line| {
            let listened = lines.get_mut(&line.bell())?;
            if matches!(line, Line::Topics(..)) {
                listened.filtered.asking += 1;
            } else {
                listened.told = UNTOLD;
                listened.asked += 1;
            }
            Some(listened.asked)
        };
        let counts = asked.iter().map(count).collect();
        Asking { bells: self, lines: asked, counts }
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
                self.marks.forget(queue, *at);
                rung.extend(news(&mut lines, &Line::Queue(queue.clone()), *at, true));
            }
            if let Some(at) = effects.jobs_due {
                rung.extend(news(&mut lines, &Line::Jobs, at, true));
            }
            if effects.leases {
                rung.extend(lines.get(&Line::Leases).map(|listened| listened.bell.clone()));
            }
        }
        for bell in rung {
            bell.ring();
        }
    }

    /// The lines somebody has listened to, also by the filters they asked with.
    pub(crate) fn lines(&self) -> Vec<Line> {
        let mut all = Vec::new();
        for (line, listened) in self.lock().iter() {
            all.push(line.clone());
            if let Line::Queue(queue) = line {
                let filters = listened.filtered.topics.iter();
                all.extend(filters.map(|topics| Line::Topics(queue.clone(), topics.clone())));
            }
        }
        all
    }

    /// Somebody else wrote, and this is when lines are due now.
    pub(crate) fn hear(&self, heard: &[Line], due: &[Option<Timestamp>], has_cancels: bool) {
        let mut rung = Vec::new();
        {
            let mut lines = self.lock();
            for (line, due) in heard.iter().zip(due) {
                rung.extend(due.and_then(|due| news(&mut lines, line, micros_up(due), false)));
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
                listened.filtered.told = AWAKE;
                listened.filtered.topics.clear();
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

/// The bell to ring when an instant is news. What this process stored is news to all who were told a later
/// instant; what a look at a line found, only to those who ask for the same line.
fn news(
    lines: &mut HashMap<Line, Listened>,
    line: &Line,
    at: i64,
    is_stored: bool,
) -> Option<Bell> {
    let is_filtered = matches!(line, Line::Topics(..));
    let listened = lines.get_mut(&line.bell())?;
    let is_news = !is_filtered && at < listened.told;
    let filtered = &mut listened.filtered;
    let is_news_to_filters =
        filtered.asking > 0 || ((is_stored || is_filtered) && at < filtered.told);
    if !is_news && !is_news_to_filters {
        return None;
    }
    if is_news {
        listened.told = at;
    }
    filtered.told = AWAKE;
    filtered.topics.clear();
    Some(listened.bell.clone())
}
