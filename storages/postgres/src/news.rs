//! News: what became due, told to who sleeps here at once and to other processes in a moment.
//!
//! A bell rings only for something earlier than what its sleepers were told last, so a million messages
//! of next year wake nobody. Telling others is a notification after the commit, from a connection of
//! its own: inside the transaction it would make every commit of the database wait in one line.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use punctual::model::Queue;
use punctual::storage::{Bell, Line, Wakeup};

/// The bells of this process, and what has to be told to others.
#[derive(Default)]
pub(crate) struct News {
    bells: Mutex<HashMap<Line, LineBell>>,
    outgoing: Mutex<Outgoing>,
}

struct LineBell {
    bell: Bell,
    /// Who sleeps was told that nothing is due before; nothing when they are awake.
    told: Option<i64>,
    /// How many are asking just now; they may be given an answer from before a ring.
    looking: usize,
    rings: u64,
}

impl Default for LineBell {
    fn default() -> Self {
        Self { bell: Wakeup::new().0, told: None, looking: 0, rings: 0 }
    }
}

/// What others do not know yet: the earliest instant for each line.
#[derive(Default)]
struct Outgoing {
    lines: HashMap<Line, i64>,
    is_being_sent: bool,
}

/// Somebody is asking when a line is due; while they do, everything rings.
pub(crate) struct Looking<'a> {
    news: &'a News,
    line: &'a Line,
    rings: u64,
}

impl Looking<'_> {
    /// The answer they get; from now on only something earlier rings.
    pub(crate) fn told(self, due_at: Option<i64>) {
        let mut bells = self.news.bells();
        let known = bells.entry(self.line.bell()).or_default();
        if known.rings == self.rings {
            let due_at = due_at.unwrap_or(i64::MAX);
            known.told = Some(known.told.map_or(due_at, |told| told.max(due_at)));
        }
    }
}

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        let mut bells = self.news.bells();
        let known = bells.entry(self.line.bell()).or_default();
        known.looking = known.looking.saturating_sub(1);
    }
}

impl News {
    pub(crate) fn wakeup(&self, line: &Line) -> Wakeup {
        self.bells().entry(line.bell()).or_default().bell.wakeup()
    }

    /// Somebody begins to ask when a line is due.
    pub(crate) fn look<'a>(&'a self, line: &'a Line) -> Looking<'a> {
        let mut bells = self.bells();
        let known = bells.entry(line.bell()).or_default();
        known.looking += 1;
        Looking { news: self, line, rings: known.rings }
    }

    /// Something is due at an instant: rings here when that is news.
    pub(crate) fn ring(&self, line: &Line, due_at: i64) {
        let bell = {
            let mut bells = self.bells();
            let known = bells.entry(line.clone()).or_default();
            if known.looking == 0 && known.told.is_some_and(|told| due_at >= told) {
                return;
            }
            known.told = None;
            known.rings = known.rings.wrapping_add(1);
            known.bell.clone()
        };
        bell.ring();
    }

    /// Rings everything: nobody knows what was missed.
    pub(crate) fn ring_all(&self) {
        let bells: Vec<Bell> = {
            let mut bells = self.bells();
            bells
                .values_mut()
                .map(|known| {
                    known.told = None;
                    known.rings = known.rings.wrapping_add(1);
                    known.bell.clone()
                })
                .collect()
        };
        for bell in bells {
            bell.ring();
        }
    }

    /// Keeps for others; answers whether somebody has to begin to send.
    pub(crate) fn keep(&self, line: Line, due_at: i64) -> bool {
        let mut outgoing = self.outgoing.lock().unwrap_or_else(PoisonError::into_inner);
        let first = outgoing.lines.entry(line).or_insert(due_at);
        *first = due_at.min(*first);
        !std::mem::replace(&mut outgoing.is_being_sent, true)
    }

    /// What is to be sent now; when there is nothing, whoever asked stops sending.
    pub(crate) fn take(&self) -> Vec<(Line, i64)> {
        let mut outgoing = self.outgoing.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<(Line, i64)> = outgoing.lines.drain().collect();
        outgoing.is_being_sent = !lines.is_empty();
        lines
    }

    fn bells(&self) -> MutexGuard<'_, HashMap<Line, LineBell>> {
        self.bells.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The most bytes of a notification; the server's limit is 8,000.
const NOTE_LENGTH_MAX: usize = 7_900;

/// A notification: who says it, when something is due, and on which line.
pub(crate) fn written(sender: u64, line: &Line, due_at: i64) -> String {
    let name = match line {
        Line::Queue(queue) | Line::Topics(queue, _) => format!("q{queue}"),
        Line::Jobs => "j".to_owned(),
        Line::Leases => "l".to_owned(),
    };
    let note = format!("{sender:x} {due_at} {name}");
    if note.len() > NOTE_LENGTH_MAX { format!("{sender:x} {due_at} *") } else { note }
}

/// What a notification says; no line means any of them.
pub(crate) fn read(note: &str) -> Option<(u64, i64, Option<Line>)> {
    let mut parts = note.splitn(3, ' ');
    let sender = u64::from_str_radix(parts.next()?, 16).ok()?;
    let due_at = parts.next()?.parse().ok()?;
    let name = parts.next()?;
    let line = match name.split_at_checked(1)? {
        ("q", queue) => Some(Line::Queue(Queue::from(queue.to_owned()))),
        ("j", _) => Some(Line::Jobs),
        ("l", _) => Some(Line::Leases),
        _ => None,
    };
    Some((sender, due_at, line))
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn line() -> Line {
        Line::Queue(Queue::default())
    }

    fn has_rung(wakeup: &mut Wakeup) -> bool {
        let rung = pin!(wakeup.rung());
        rung.poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    #[test]
    fn only_what_is_earlier_than_the_last_answer_rings() {
        let news = News::default();
        let mut bell = news.wakeup(&line());
        news.ring(&line(), 50);
        assert!(has_rung(&mut bell), "nobody was told anything yet");
        news.look(&line()).told(Some(100));
        news.ring(&line(), 100);
        news.ring(&line(), 200);
        assert!(!has_rung(&mut bell));
        news.ring(&line(), 99);
        assert!(has_rung(&mut bell));
        news.ring(&line(), 1_000);
        assert!(has_rung(&mut bell), "who was woken has not been told again yet");
    }

    #[test]
    fn what_arrives_while_somebody_looks_is_not_missed() {
        let news = News::default();
        let here = line();
        news.look(&here).told(Some(100));
        let looking = news.look(&here);
        let mut bell = news.wakeup(&here);
        news.ring(&here, 150);
        looking.told(Some(200));
        assert!(has_rung(&mut bell), "who asks may be told 200");
        news.ring(&here, 250);
        assert!(
            has_rung(&mut bell),
            "the answer was older than the ring, so it counts for nothing"
        );
        drop(news.look(&here));
        news.look(&here).told(Some(300));
        news.ring(&here, 300);
        assert!(!has_rung(&mut bell), "an answer that never came is forgotten");
    }

    #[test]
    fn the_latest_answer_of_several_sleepers_counts() {
        let news = News::default();
        let mut bell = news.wakeup(&line());
        for due_at in [Some(100), Some(50)] {
            news.look(&line()).told(due_at);
        }
        news.ring(&line(), 50);
        assert!(has_rung(&mut bell), "the first one sleeps until 100");
    }

    #[test]
    fn notes_read_back_and_long_names_mean_every_line() {
        for line in [line(), Line::Jobs, Line::Leases, Line::Queue(Queue::from("a b ü".to_owned()))]
        {
            assert_eq!(read(&written(255, &line, -7)), Some((255, -7, Some(line))));
        }
        let long = Line::Queue(Queue::from("x".repeat(9_000)));
        assert_eq!(read(&written(1, &long, 3)), Some((1, 3, None)));
        assert_eq!(read("nonsense"), None);
    }

    #[test]
    fn one_sends_at_a_time_and_the_earliest_instant_is_told() {
        let news = News::default();
        assert!(news.keep(line(), 9));
        assert!(!news.keep(line(), 4));
        assert_eq!(news.take(), [(line(), 4)]);
        assert!(!news.keep(Line::Jobs, 1), "it is still being sent");
        assert_eq!(news.take().len(), 1);
        assert_eq!(news.take().len(), 0);
        assert!(news.keep(Line::Jobs, 1));
    }
}
