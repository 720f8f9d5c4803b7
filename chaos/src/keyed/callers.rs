//! The callers: each sends keyed requests one after the other, repeats what was not answered, and repeats some
//! of what was, on whichever server.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punctual::clock::{add, between};
use punctual::jiff::Timestamp;
use punctual::{Clock, SystemClock};
use serde_json::{Value, json};

use super::check::{Seen, Story, Try};
use super::client::{self, Answer};
use crate::dice::Dice;
use crate::worker::TOPIC;

/// How many callers there are.
const CALLERS: u64 = 6;
/// The most messages of a batch.
const BATCH_MAX: u64 = 20;
/// How many of a hundred answered requests are sent once more.
const AGAIN: u64 = 50;
/// A key that is not answered after this long is given up, which is wrong.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(90);
/// Between two requests of a key.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(120));
/// How many of a hundred requests are sent to both servers at once.
const BESIDE: u64 = 30;
/// The second one begins this much later at most, while the first one runs or right after its server was killed.
const BESIDE_AFTER: Duration = Duration::from_millis(8);
/// How many characters of a reason tell its kind.
const REASON_LEN_MAX: usize = 90;
/// A topic that no server handles.
const KEPT: &str = "kept";

/// All callers of a run.
pub(super) struct Callers {
    ports: Vec<u16>,
    begun: Timestamp,
    stopping: AtomicBool,
    at_work: AtomicUsize,
    stories: Mutex<Vec<Story>>,
}

impl Callers {
    pub(super) fn start(ports: Vec<u16>, dice: &Dice) -> Running {
        let callers = Arc::new(Self {
            ports,
            begun: SystemClock.now(),
            stopping: AtomicBool::new(false),
            at_work: AtomicUsize::new(usize::try_from(CALLERS).unwrap_or_default()),
            stories: Mutex::default(),
        });
        for number in 0..CALLERS {
            let (callers, dice) = (callers.clone(), dice.for_one(number));
            tokio::spawn(async move { callers.call(number, dice).await });
        }
        Running(callers)
    }

    /// Whether every caller has ended its last key.
    pub(super) fn are_done(&self) -> bool {
        self.at_work.load(Ordering::Acquire) == 0
    }

    pub(super) fn stories(&self) -> Vec<Story> {
        self.stories.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn call(&self, number: u64, mut dice: Dice) {
        let mut count = 0_u64;
        while !self.stopping.load(Ordering::Acquire) {
            count += 1;
            let story = self.one(format!("{number}-{count}"), &mut dice).await;
            self.stories.lock().unwrap_or_else(PoisonError::into_inner).push(story);
        }
        self.at_work.fetch_sub(1, Ordering::AcqRel);
    }

    /// Sends one request until it is answered, and some once or twice more.
    async fn one(&self, key: String, dice: &mut Dice) -> Story {
        let (path, body, messages) = request(&key, dice);
        let mut story = Story { key, messages, tries: Vec::new() };
        let deadline = add(SystemClock.now(), GIVEN_UP_AFTER);
        let wanted = 1 + usize::from(dice.percent(AGAIN)) + usize::from(dice.percent(AGAIN / 5));
        let mut answered = 0;
        while answered < wanted && SystemClock.now() < deadline {
            let place = usize::try_from(dice.below(self.ports.len() as u64)).unwrap_or_default();
            let (key, other) = (story.key.clone(), (place + 1) % self.ports.len());
            let request = (path, key.as_str(), &body);
            let tries = if dice.percent(BESIDE) {
                let after = dice.between(Duration::ZERO, BESIDE_AFTER);
                let first = self.send(self.ports[place], request, None);
                let second = self.send(self.ports[other], request, Some(after));
                let (first, second) = tokio::join!(first, second);
                vec![first, second]
            } else {
                vec![self.send(self.ports[place], request, None).await]
            };
            let is_answer = |one: &&Try| matches!(one.seen, Seen::Answered { .. });
            let answers = tries.iter().filter(is_answer).count();
            story.tries.extend(tries);
            answered += answers;
            if answers == 0 {
                let rest = dice.between(PAUSE.0, PAUSE.1);
                SystemClock.sleep_until(add(SystemClock.now(), rest)).await;
            }
        }
        story
    }

    /// Sends a request, the second one of its key a little later.
    async fn send(
        &self,
        port: u16,
        (path, key, body): (&str, &str, &Value),
        after: Option<Duration>,
    ) -> Try {
        if let Some(after) = after {
            SystemClock.sleep_until(add(SystemClock.now(), after)).await;
        }
        let from_ms = self.elapsed_ms();
        let answer = client::post(port, path, key, body).await;
        let seen = answer.map_or(Seen::Broken, |answer| read(&answer));
        Try { from_ms, to_ms: self.elapsed_ms(), beside: after.is_some(), seen }
    }

    fn elapsed_ms(&self) -> u64 {
        let elapsed = between(self.begun, SystemClock.now());
        u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
    }
}

/// Callers that make new requests.
pub(super) struct Running(Arc<Callers>);

impl Running {
    /// Lets every caller end with its present key.
    pub(super) fn stop(self) -> Arc<Callers> {
        self.0.stopping.store(true, Ordering::Release);
        self.0
    }
}

/// A single message or a batch, of which some are handled at once, some wait, and some have a `dedupe`.
fn request(key: &str, dice: &mut Dice) -> (&'static str, Value, usize) {
    let is_batch = dice.percent(50);
    let count = if is_batch { 2 + dice.below(BATCH_MAX - 1) } else { 1 };
    let mut item = |position: u64| {
        let topic = if dice.percent(70) { TOPIC } else { KEPT };
        let mut item = json!({ "topic": topic, "json": { "key": key, "position": position } });
        if dice.percent(20) {
            item["dedupe"] = json!(format!("{key}/{position}"));
            item["replace"] = json!(dice.percent(50));
        }
        item
    };
    if !is_batch {
        return ("/api/v1/messages", item(0), 1);
    }
    let items: Vec<Value> = (0..count).map(item).collect();
    let messages = items.len();
    ("/api/v1/messages/batch", json!({ "items": items }), messages)
}

fn read(answer: &Answer) -> Seen {
    let id = |item: &Value| item["id"].as_str().map(ToOwned::to_owned);
    match answer.status {
        200 | 201 => {
            let ids = match answer.body["items"].as_array() {
                Some(items) => items.iter().filter_map(id).collect(),
                None => id(&answer.body).into_iter().collect(),
            };
            Seen::Answered { ids, is_replay: answer.is_replay }
        }
        409 if reason(answer).contains("under way") => Seen::UnderWay,
        status if status >= 500 => Seen::Failed(format!("{status} {}", reason(answer))),
        status => Seen::Wrong(format!("{status} {}", reason(answer))),
    }
}

/// Returns why a server says no, so that the same reasons read the same: without figures, and not all of it.
fn reason(answer: &Answer) -> String {
    let detail = answer.body["detail"].as_str().unwrap_or("without a reason");
    let mut reason = String::new();
    for sign in detail.chars().filter(|sign| *sign != '|') {
        let sign = if sign.is_ascii_digit() { '#' } else { sign };
        if !(sign == '#' && reason.ends_with('#')) {
            reason.push(sign);
        }
    }
    reason.chars().take(REASON_LEN_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_one_kind_read_the_same() {
        let answer = |status, detail: &str| {
            read(&Answer { status, is_replay: false, body: json!({ "detail": detail }) })
        };
        let away = Seen::Failed("503 no answer in # ms".to_owned());
        assert_eq!(answer(503, "no answer in 20 ms"), away);
        assert_eq!(answer(503, "no answer in 1999 ms"), away);
        assert_eq!(
            answer(409, "the request of the key \"7\" is under way; ask again"),
            Seen::UnderWay
        );
        assert_eq!(answer(409, "it is done"), Seen::Wrong("409 it is done".to_owned()));
    }
}
