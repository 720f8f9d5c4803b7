//! The judgement of keyed requests: what the callers saw and what the storage holds. Pure.
//!
//! Each key has one effect: its messages, each once, or none when no repeat was ever answered. All answers of a
//! key name the same messages, and these are the stored ones. No key is refused as under way for longer than a
//! lease.

use std::collections::BTreeMap;

/// The longest a key may be refused as under way: a lease of 10 s, and what a busy machine adds.
pub const UNDER_WAY_MAX_MS: u64 = 12_000;

/// A key that is refused for longer than this waits for the end of a lease, not for a request that runs.
const WAITED_MS: u64 = 5_000;

/// What one request came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It was done; these are its messages, and whether the server said that the key was known.
    Answered {
        /// The messages, in the order of their positions.
        ids: Vec<String>,
        /// Whether the answer was marked as a replay.
        is_replay: bool,
    },
    /// 409: a request of the key is under way.
    UnderWay,
    /// The server failed: its status, and why it says that it did.
    Failed(String),
    /// There was no answer.
    Broken,
    /// An answer that must not be: its status, and what it says.
    Wrong(String),
}

/// One request.
#[derive(Clone, Debug)]
pub struct Try {
    /// When it began, in milliseconds of the run.
    pub from_ms: u64,
    /// When it ended.
    pub to_ms: u64,
    /// Whether another request of the key ran when it began.
    pub beside: bool,
    /// What it came to.
    pub seen: Seen,
}

/// Everything that a caller did with one key.
#[derive(Clone, Debug)]
pub struct Story {
    /// The key.
    pub key: String,
    /// How many messages the request is for.
    pub messages: usize,
    /// The requests, in their order.
    pub tries: Vec<Try>,
}

/// A message that the storage holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Effect {
    /// Which of the messages of its request.
    pub position: u64,
    /// Its id.
    pub id: String,
}

/// What came out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Keys.
    pub keys: usize,
    /// Those of batches.
    pub batches: usize,
    /// Messages that the storage holds.
    pub messages: usize,
    /// Requests.
    pub requests: usize,
    /// Requests that were answered.
    pub answered: usize,
    /// Those of them that the server marked as a replay.
    pub replays: usize,
    /// Requests that were sent while another one of their key ran.
    pub beside: usize,
    /// Requests that were refused as under way: they met a live lease.
    pub under_way: usize,
    /// Keys of which one was.
    pub leased: usize,
    /// Those of them that were refused for so long that the lease ended.
    pub waited: usize,
    /// Requests that failed with a status of 500 or more, by what was said.
    pub failed: BTreeMap<String, usize>,
    /// Requests without an answer.
    pub broken: usize,
    /// Keys that needed more than one request for their first answer.
    pub repeated: usize,
    /// Those of them whose first answer was marked as a replay, so that an earlier request had begun.
    pub taken_over: usize,
    /// The longest that one key was refused as under way, in milliseconds.
    pub under_way_ms: u64,
    /// Keys with more than one effect.
    pub twice: usize,
    /// Keys whose answers differ, or differ from what is stored.
    pub differing: usize,
    /// Everything that must not be, in words.
    pub wrong: Vec<String>,
}

impl Judgement {
    /// Whether everything is as promised.
    pub fn is_good(&self) -> bool {
        self.wrong.is_empty()
    }
}

/// Judges the stories of all keys by what is stored.
pub fn judge(stories: &[Story], stored: &BTreeMap<String, Vec<Effect>>) -> Judgement {
    let mut judgement = Judgement { keys: stories.len(), ..Judgement::default() };
    let known: BTreeMap<&str, &Story> =
        stories.iter().map(|story| (story.key.as_str(), story)).collect();
    for (key, effects) in stored {
        judgement.messages += effects.len();
        if !known.contains_key(key.as_str()) {
            judgement.wrong.push(format!("{key} was never sent and is stored"));
        }
    }
    for story in stories {
        count(story, &mut judgement);
        let mut effects = stored.get(&story.key).cloned().unwrap_or_default();
        effects.sort();
        judge_one(story, &effects, &mut judgement);
    }
    judgement
}

fn count(story: &Story, judgement: &mut Judgement) {
    judgement.batches += usize::from(story.messages > 1);
    judgement.requests += story.tries.len();
    for one in &story.tries {
        judgement.beside += usize::from(one.beside);
        match &one.seen {
            Seen::Answered { is_replay, .. } => {
                judgement.answered += 1;
                judgement.replays += usize::from(*is_replay);
            }
            Seen::UnderWay => judgement.under_way += 1,
            Seen::Failed(why) => *judgement.failed.entry(why.clone()).or_default() += 1,
            Seen::Broken => judgement.broken += 1,
            Seen::Wrong(what) => {
                judgement.wrong.push(format!("{} was answered with {what}", story.key));
            }
        }
    }
    let first = story.tries.iter().position(|one| matches!(one.seen, Seen::Answered { .. }));
    judgement.repeated += usize::from(first.is_some_and(|first| first > 0));
    let taken_over = first
        .and_then(|first| story.tries.get(first))
        .is_some_and(|one| matches!(one.seen, Seen::Answered { is_replay: true, .. }));
    judgement.taken_over += usize::from(taken_over);
}

fn judge_one(story: &Story, effects: &[Effect], judgement: &mut Judgement) {
    let key = &story.key;
    let mut answers = story.tries.iter().filter_map(|one| match &one.seen {
        Seen::Answered { ids, .. } => Some(ids),
        _ => None,
    });
    let first = answers.next();
    let positions: Vec<u64> = effects.iter().map(|effect| effect.position).collect();
    let whole: Vec<u64> = (0..story.messages as u64).collect();
    let is_whole = positions == whole;
    if effects.len() > story.messages {
        judgement.twice += 1;
        let ids: Vec<&str> = effects.iter().map(|effect| effect.id.as_str()).collect();
        let (count, wanted) = (effects.len(), story.messages);
        judgement.wrong.push(format!("{key} has {count} messages, not {wanted}: {ids:?}"));
    } else if !is_whole && (first.is_some() || !effects.is_empty()) {
        judgement.wrong.push(format!("{key} has the messages {positions:?} of {}", story.messages));
    }
    let Some(first) = first else {
        return judgement.wrong.push(format!("{key} was never answered"));
    };
    let ids: Vec<&String> = effects.iter().map(|effect| &effect.id).collect();
    let is_stored = first.iter().collect::<Vec<_>>() == ids;
    if !is_stored || answers.any(|other| other != first) {
        judgement.differing += 1;
        judgement.wrong.push(format!("{key} was answered with other messages than there are"));
    }
    let longest = longest_under_way(&story.tries);
    judgement.leased += usize::from(story.tries.iter().any(|one| one.seen == Seen::UnderWay));
    judgement.waited += usize::from(longest > WAITED_MS);
    judgement.under_way_ms = judgement.under_way_ms.max(longest);
    if longest > UNDER_WAY_MAX_MS {
        judgement.wrong.push(format!("{key} was refused as under way for {longest} ms"));
    }
}

/// Returns the longest time in which nothing but "under way" was answered; no answer says nothing.
fn longest_under_way(tries: &[Try]) -> u64 {
    let (mut longest, mut since) = (0, None);
    for one in tries {
        if one.seen == Seen::UnderWay {
            let since = *since.get_or_insert(one.from_ms);
            longest = longest.max(one.to_ms.saturating_sub(since));
        } else if one.seen != Seen::Broken {
            since = None;
        }
    }
    longest
}

#[cfg(test)]
mod tests;
