//! The judgement: what the ledgers and the history say about every message. Pure.
//!
//! Nothing lost: every acknowledged message came to the end of a handler and succeeded in the history,
//! exactly once. Nothing repeated without a reason: of the runs of one message, all but the one that
//! settled it belong to a process that was killed or found its lease lost, and the history has a lost
//! attempt for each of them. Nothing runs again that is done.

use std::collections::{BTreeMap, BTreeSet};

use punctual::model::MessageId;

use crate::fuse::Point;
use crate::ledger::Line;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// In order.
    Ended,
    /// Killed from outside.
    Killed,
    /// By itself at a crash point.
    Crashed(Point),
}

/// What one process saw, and how it ended.
#[derive(Clone, Debug)]
pub struct Story {
    /// The process.
    pub process: String,
    /// How it ended.
    pub fate: Fate,
    /// Its ledger.
    pub lines: Vec<Line>,
}

/// What the history has about one message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// Attempts that succeeded.
    pub succeeded: u32,
    /// Attempts that were lost with their process.
    pub lost: u32,
    /// Attempts that a shutdown gave back.
    pub released: u32,
}

/// What came out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Messages whose publish returned.
    pub acknowledged: usize,
    /// Messages that ran without anybody having heard that they were stored.
    pub unheard: usize,
    /// Handlers begun.
    pub runs: usize,
    /// Messages that ran more than once.
    pub repeated: usize,
    /// Runs that were repeated because their process was killed.
    pub explained_by_kill: usize,
    /// Runs that were repeated because their process found the lease lost.
    pub explained_by_lease: usize,
    /// Lost attempts in the history, also those whose handler never began.
    pub lost_attempts: u64,
    /// Messages that were acknowledged and are not done.
    pub lost: Vec<MessageId>,
    /// Everything else that must not be, in words.
    pub wrong: Vec<String>,
}

impl Judgement {
    /// Whether everything is as promised.
    pub fn is_good(&self) -> bool {
        self.lost.is_empty() && self.wrong.is_empty()
    }
}

/// Everything about one message.
#[derive(Default)]
struct Life<'a> {
    acknowledged: bool,
    finished: bool,
    done: Option<u64>,
    runs: Vec<Run<'a>>,
    /// Processes that found its lease lost.
    lease_lost: BTreeSet<&'a str>,
}

struct Run<'a> {
    token: u64,
    story: &'a Story,
}

/// Judges the stories of all processes by the history.
pub fn judge(stories: &[Story], history: &BTreeMap<MessageId, Past>) -> Judgement {
    let mut judgement = Judgement::default();
    for past in history.values() {
        judgement.lost_attempts += u64::from(past.lost);
    }
    for (id, mut life) in lives(stories) {
        life.runs.sort_by_key(|run| run.token);
        let past = history.get(&id).copied().unwrap_or_default();
        judgement.runs += life.runs.len();
        judgement.acknowledged += usize::from(life.acknowledged);
        judgement.unheard += usize::from(!life.acknowledged && !life.runs.is_empty());
        judgement.repeated += usize::from(life.runs.len() > 1);
        if life.acknowledged && !(life.finished && past.succeeded > 0) {
            judgement.lost.push(id);
        }
        if past.succeeded > 1 {
            judgement.wrong.push(format!("{id} succeeded {} times", past.succeeded));
        }
        if life.runs.len() as u64 > 1 + u64::from(past.lost + past.released) {
            let runs = life.runs.len();
            judgement.wrong.push(format!("{id} ran {runs} times, the history has {past:?}"));
        }
        repeats(id, &life, &mut judgement);
    }
    judgement
}

fn lives(stories: &[Story]) -> BTreeMap<MessageId, Life<'_>> {
    let mut lives: BTreeMap<MessageId, Life<'_>> = BTreeMap::new();
    for story in stories {
        for line in &story.lines {
            match line {
                Line::Acknowledged(id) => lives.entry(*id).or_default().acknowledged = true,
                Line::Finished(id) => lives.entry(*id).or_default().finished = true,
                Line::Done(id, token) => lives.entry(*id).or_default().done = Some(*token),
                Line::Started(id, _, token) => {
                    lives.entry(*id).or_default().runs.push(Run { token: *token, story });
                }
                Line::LeaseLost(id) => {
                    lives.entry(*id).or_default().lease_lost.insert(&story.process);
                }
                Line::Claimed(..) | Line::Reclaimed(..) | Line::Again(..) => {}
            }
        }
    }
    lives
}

/// Finds the reason for every run but the one that settled the message.
fn repeats(id: MessageId, life: &Life<'_>, judgement: &mut Judgement) {
    // A process that was killed right after the commit could not write that it is done; then the last
    // run is the one.
    let settled = life.done.or(life.runs.last().map(|run| run.token));
    for run in life.runs.iter().filter(|run| Some(run.token) != settled) {
        let Story { process, fate, .. } = run.story;
        if settled.is_some_and(|settled| run.token > settled) {
            judgement.wrong.push(format!("{id} ran in {process} after it was done"));
        } else if life.lease_lost.contains(process.as_str()) {
            judgement.explained_by_lease += 1;
        } else if *fate == Fate::Ended {
            judgement.wrong.push(format!("{id} ran in {process} and again without a reason"));
        } else {
            judgement.explained_by_kill += 1;
        }
    }
}

#[cfg(test)]
mod tests;
