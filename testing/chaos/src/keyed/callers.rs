//! Callers: each sends keyed requests one after the other and repeats unanswered ones, and some answered ones, on a
//! random server.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punctual::clock::{add, between};
use punctual::jiff::Timestamp;
use punctual::{Clock, SystemClock};
use serde_json::{Value, json};

use super::check::{KeyHistory, RequestAttempt, RequestResult};
use super::client::{self, NoResponse, Response};
use crate::random::SeededRandom;
use crate::worker::TOPIC;

/// Number of callers.
const CALLERS: u64 = 6;
/// Largest number of messages in a batch.
const BATCH_MAX: u64 = 20;
/// Share of answered requests that are repeated, in percent.
const REPEAT_PERCENT: u64 = 50;
/// Time after which a caller gives up a key, which is a violation.
const KEY_TIMEOUT: Duration = Duration::from_secs(90);
/// Shortest and longest time between two unanswered requests of a key.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(120));
/// Share of requests sent to both servers concurrently, in percent.
const CONCURRENT_PERCENT: u64 = 30;
/// Longest delay of the second of two concurrent requests, which meets a running request or a server just killed.
const CONCURRENT_DELAY_MAX: Duration = Duration::from_millis(8);
/// Length at which reasons are cut, in characters.
const REASON_LEN_MAX: usize = 90;
/// Topic that no server handles.
const UNHANDLED_TOPIC: &str = "unhandled";

/// State shared by all callers of a run.
pub(super) struct Callers {
    ports: Vec<u16>,
    begun: Timestamp,
    stopping: AtomicBool,
    active: AtomicUsize,
    histories: Mutex<Vec<KeyHistory>>,
}

impl Callers {
    pub(super) fn start(ports: Vec<u16>, random: &SeededRandom) -> RunningCallers {
        let callers = Arc::new(Self {
            ports,
            begun: SystemClock.now(),
            stopping: AtomicBool::new(false),
            active: AtomicUsize::new(usize::try_from(CALLERS).unwrap_or_default()),
            histories: Mutex::default(),
        });
        for number in 0..CALLERS {
            let (callers, random) = (callers.clone(), random.fork(number));
            tokio::spawn(async move { callers.send_requests(number, random).await });
        }
        RunningCallers(callers)
    }

    /// Returns whether every caller has finished its last key.
    pub(super) fn are_done(&self) -> bool {
        self.active.load(Ordering::Acquire) == 0
    }

    /// Returns the start of the run, from which the times of requests count.
    pub(super) fn begun(&self) -> Timestamp {
        self.begun
    }

    pub(super) fn histories(&self) -> Vec<KeyHistory> {
        self.histories.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn send_requests(&self, number: u64, mut random: SeededRandom) {
        let mut count = 0_u64;
        while !self.stopping.load(Ordering::Acquire) {
            count += 1;
            let history = self.send_until_answered(format!("{number}-{count}"), &mut random).await;
            self.histories.lock().unwrap_or_else(PoisonError::into_inner).push(history);
        }
        self.active.fetch_sub(1, Ordering::AcqRel);
    }

    /// Sends a request until it is answered, and some once or twice more.
    async fn send_until_answered(&self, key: String, random: &mut SeededRandom) -> KeyHistory {
        let (path, body, messages) = request(&key, random);
        let mut history = KeyHistory { key, messages, attempts: Vec::new() };
        let deadline = add(SystemClock.now(), KEY_TIMEOUT);
        let answers_wanted = 1
            + usize::from(random.percent(REPEAT_PERCENT))
            + usize::from(random.percent(REPEAT_PERCENT / 5));
        let mut answered = 0;
        while answered < answers_wanted && SystemClock.now() < deadline {
            let index = usize::try_from(random.below(self.ports.len() as u64)).unwrap_or_default();
            let (key, other) = (history.key.clone(), (index + 1) % self.ports.len());
            let request = (path, key.as_str(), &body);
            let attempts = if random.percent(CONCURRENT_PERCENT) {
                let after = random.between(Duration::ZERO, CONCURRENT_DELAY_MAX);
                let first = self.send(self.ports[index], request, None);
                let second = self.send(self.ports[other], request, Some(after));
                let (first, second) = tokio::join!(first, second);
                vec![first, second]
            } else {
                vec![self.send(self.ports[index], request, None).await]
            };
            let is_answer = |attempt: &&RequestAttempt| {
                matches!(attempt.result, RequestResult::Answered { .. })
            };
            let answers = attempts.iter().filter(is_answer).count();
            history.attempts.extend(attempts);
            answered += answers;
            if answers == 0 {
                let rest = random.between(PAUSE.0, PAUSE.1);
                SystemClock.sleep_until(add(SystemClock.now(), rest)).await;
            }
        }
        history
    }

    /// Sends a request, after a delay when it is the second of two concurrent ones.
    async fn send(
        &self,
        port: u16,
        (path, key, body): (&str, &str, &Value),
        after: Option<Duration>,
    ) -> RequestAttempt {
        if let Some(after) = after {
            SystemClock.sleep_until(add(SystemClock.now(), after)).await;
        }
        let from_ms = self.elapsed_ms();
        let result = match client::post(port, path, key, body).await {
            Ok(response) => classify(&response),
            Err(NoResponse::NotSent) => RequestResult::NotSent,
            Err(NoResponse::MayBeSent) => RequestResult::NoResponse,
        };
        let (to_ms, concurrent) = (self.elapsed_ms(), after.is_some());
        RequestAttempt { port, from_ms, to_ms, concurrent, result }
    }

    fn elapsed_ms(&self) -> u64 {
        milliseconds_since(self.begun, SystemClock.now())
    }
}

/// Returns the milliseconds from one instant to a later one.
pub(super) fn milliseconds_since(begun: Timestamp, at: Timestamp) -> u64 {
    u64::try_from(between(begun, at).as_millis()).unwrap_or(u64::MAX)
}

/// Handle of running callers.
pub(super) struct RunningCallers(Arc<Callers>);

impl RunningCallers {
    /// Lets every caller stop after its current key.
    pub(super) fn stop(self) -> Arc<Callers> {
        self.0.stopping.store(true, Ordering::Release);
        self.0
    }
}

/// Returns path, body and number of messages of a request: some handled, some not, some with a `dedupe`.
fn request(key: &str, random: &mut SeededRandom) -> (&'static str, Value, usize) {
    let is_batch = random.percent(50);
    let count = if is_batch { 2 + random.below(BATCH_MAX - 1) } else { 1 };
    let mut item = |position: u64| {
        let topic = if random.percent(70) { TOPIC } else { UNHANDLED_TOPIC };
        let mut item = json!({ "topic": topic, "json": { "key": key, "position": position } });
        if random.percent(20) {
            item["dedupe"] = json!(format!("{key}/{position}"));
            item["replace"] = json!(random.percent(50));
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

fn classify(answer: &Response) -> RequestResult {
    let id = |item: &Value| item["id"].as_str().map(ToOwned::to_owned);
    match answer.status {
        200 | 201 => {
            let ids = match answer.body["items"].as_array() {
                Some(items) => items.iter().filter_map(id).collect(),
                None => id(&answer.body).into_iter().collect(),
            };
            RequestResult::Answered { ids, is_replay: answer.is_replay }
        }
        409 if reason(answer).contains("is in flight") => RequestResult::InFlight,
        status if status >= 500 => RequestResult::Failed(format!("{status} {}", reason(answer))),
        status => RequestResult::Unexpected(format!("{status} {}", reason(answer))),
    }
}

/// Returns the start of an error detail with digits replaced, so that errors of one kind are equal.
fn reason(answer: &Response) -> String {
    let detail = answer.body["detail"].as_str().unwrap_or("no detail");
    let mut reason = String::new();
    for character in detail.chars().filter(|character| *character != '|') {
        let character = if character.is_ascii_digit() { '#' } else { character };
        if !(character == '#' && reason.ends_with('#')) {
            reason.push(character);
        }
    }
    reason.chars().take(REASON_LEN_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_one_kind_are_equal() {
        let answer = |status, detail: &str| {
            classify(&Response { status, is_replay: false, body: json!({ "detail": detail }) })
        };
        let away = RequestResult::Failed("503 no answer in # ms".to_owned());
        assert_eq!(answer(503, "no answer in 20 ms"), away);
        assert_eq!(answer(503, "no answer in 1999 ms"), away);
        assert_eq!(
            answer(
                409,
                "the request with the Idempotency-Key \"7\" is in flight; try again in a second"
            ),
            RequestResult::InFlight
        );
        assert_eq!(
            answer(409, "it is done"),
            RequestResult::Unexpected("409 it is done".to_owned())
        );
    }
}
