//! Check of keyed requests: compares the responses of all callers with the stored messages, without I/O.
//!
//! Each key has one effect: each of its messages exactly once, or none when no request was answered. All responses of
//! a key name the same messages, and these are the stored ones. No key is refused as in flight without a proven lease
//! or for longer than one after its last write (`in_flight.rs`).

mod in_flight;

use std::collections::BTreeMap;

pub use self::in_flight::{KeyLease, LeaseFacts, ServerFacts};

/// Result of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestResult {
    /// The request succeeded.
    Answered {
        /// Ids of the messages, in the order of their positions.
        ids: Vec<String>,
        /// Whether the response was marked as a replay.
        is_replay: bool,
    },
    /// 409: another request of the key is in flight.
    InFlight,
    /// Status 500 or more: the status and the detail.
    Failed(String),
    /// No connection, so that nothing was sent.
    NotSent,
    /// No response to a request that may have reached the server.
    NoResponse,
    /// Any other response, which is a violation: the status and the detail.
    Unexpected(String),
}

/// One request of a key.
#[derive(Clone, Debug)]
pub struct RequestAttempt {
    /// Port of the server.
    pub port: u16,
    /// Start, in milliseconds since the start of the run.
    pub from_ms: u64,
    /// End, in milliseconds since the start of the run.
    pub to_ms: u64,
    /// Whether another request of the key was running at the start.
    pub concurrent: bool,
    /// Result of the request.
    pub result: RequestResult,
}

/// All requests of one key.
#[derive(Clone, Debug)]
pub struct KeyHistory {
    /// Idempotency key.
    pub key: String,
    /// Number of messages in the request.
    pub messages: usize,
    /// Requests in order.
    pub attempts: Vec<RequestAttempt>,
}

/// Message in the storage.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoredMessage {
    /// Position of the message in its request.
    pub position: u64,
    /// Id of the message.
    pub id: String,
}

/// Result of the check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyedCheckResult {
    /// Number of keys.
    pub keys: usize,
    /// Keys of batches.
    pub batches: usize,
    /// Messages in the storage.
    pub messages: usize,
    /// Number of requests.
    pub requests: usize,
    /// Requests with a success response.
    pub answered: usize,
    /// Responses marked as a replay.
    pub replays: usize,
    /// Requests sent while another request of the key was running.
    pub concurrent: usize,
    /// Requests refused as in flight, because of a live lease.
    pub in_flight: usize,
    /// Keys with at least one refused request.
    pub refused: usize,
    /// Keys refused until the lease ended.
    pub waited: usize,
    /// Requests that failed with a status of 500 or more, by detail.
    pub failed: BTreeMap<String, usize>,
    /// Requests without a connection.
    pub not_sent: usize,
    /// Sent requests without a response.
    pub unanswered: usize,
    /// Keys that needed more than one request for their first response.
    pub repeated: usize,
    /// Keys among them whose first response was marked as a replay, so that an earlier request had started.
    pub taken_over: usize,
    /// Proven leases of all keys: first ones, renewals and takeovers.
    pub leases: usize,
    /// Longest time from the last write of a lease to a request that was refused because of it, in milliseconds.
    pub in_flight_ms: u64,
    /// Longest time in which all responses of a key were refusals, over all its leases, in milliseconds.
    pub refused_ms: u64,
    /// Requests refused without a live lease by a server that was writing the lease of its own request, or was resumed.
    pub own_request: usize,
    /// Keys with more than one effect.
    pub duplicated: usize,
    /// Keys whose responses differ from each other or from the stored messages.
    pub differing: usize,
    /// Descriptions of all violations.
    pub violations: Vec<String>,
}

impl KeyedCheckResult {
    /// Returns whether there is no violation.
    pub fn is_good(&self) -> bool {
        self.violations.is_empty()
    }
}

/// Checks the requests of all keys against the stored messages.
pub fn verify(
    histories: &[KeyHistory],
    stored: &BTreeMap<String, Vec<StoredMessage>>,
    facts: &LeaseFacts,
) -> KeyedCheckResult {
    let mut check_result =
        KeyedCheckResult { keys: histories.len(), ..KeyedCheckResult::default() };
    let sent: BTreeMap<&str, &KeyHistory> =
        histories.iter().map(|history| (history.key.as_str(), history)).collect();
    for (key, messages_stored) in stored {
        check_result.messages += messages_stored.len();
        if !sent.contains_key(key.as_str()) {
            check_result.violations.push(format!("{key} is stored but was never sent"));
        }
    }
    for history in histories {
        count(history, &mut check_result);
        let mut messages_stored = stored.get(&history.key).cloned().unwrap_or_default();
        messages_stored.sort();
        verify_key(history, &messages_stored, &mut check_result);
        in_flight::verify(history, facts, &mut check_result);
    }
    check_result
}

fn count(history: &KeyHistory, check_result: &mut KeyedCheckResult) {
    check_result.batches += usize::from(history.messages > 1);
    check_result.requests += history.attempts.len();
    for one in &history.attempts {
        check_result.concurrent += usize::from(one.concurrent);
        match &one.result {
            RequestResult::Answered { is_replay, .. } => {
                check_result.answered += 1;
                check_result.replays += usize::from(*is_replay);
            }
            RequestResult::InFlight => check_result.in_flight += 1,
            RequestResult::Failed(why) => *check_result.failed.entry(why.clone()).or_default() += 1,
            RequestResult::NotSent => check_result.not_sent += 1,
            RequestResult::NoResponse => check_result.unanswered += 1,
            RequestResult::Unexpected(what) => {
                check_result.violations.push(format!("{} was answered with {what}", history.key));
            }
        }
    }
    let first = history
        .attempts
        .iter()
        .position(|one| matches!(one.result, RequestResult::Answered { .. }));
    check_result.repeated += usize::from(first.is_some_and(|first| first > 0));
    let taken_over = first
        .and_then(|first| history.attempts.get(first))
        .is_some_and(|one| matches!(one.result, RequestResult::Answered { is_replay: true, .. }));
    check_result.taken_over += usize::from(taken_over);
}

fn verify_key(
    history: &KeyHistory,
    messages_stored: &[StoredMessage],
    check_result: &mut KeyedCheckResult,
) {
    let key = &history.key;
    let mut answers = history.attempts.iter().filter_map(|one| match &one.result {
        RequestResult::Answered { ids, .. } => Some(ids),
        _ => None,
    });
    let first = answers.next();
    let positions: Vec<u64> = messages_stored.iter().map(|message| message.position).collect();
    let whole: Vec<u64> = (0..history.messages as u64).collect();
    let is_whole = positions == whole;
    if messages_stored.len() > history.messages {
        check_result.duplicated += 1;
        let ids: Vec<&str> = messages_stored.iter().map(|message| message.id.as_str()).collect();
        let (count, expected) = (messages_stored.len(), history.messages);
        check_result
            .violations
            .push(format!("{key} has {count} messages, not {expected}: {ids:?}"));
    } else if !is_whole && (first.is_some() || !messages_stored.is_empty()) {
        check_result
            .violations
            .push(format!("{key} has the messages {positions:?} of {}", history.messages));
    }
    let Some(first) = first else {
        return check_result.violations.push(format!("{key} was never answered"));
    };
    let ids: Vec<&String> = messages_stored.iter().map(|message| &message.id).collect();
    let is_stored = first.iter().collect::<Vec<_>>() == ids;
    if !is_stored || answers.any(|other| other != first) {
        check_result.differing += 1;
        check_result
            .violations
            .push(format!("{key} has a response with other messages than the stored ones"));
    }
}

#[cfg(test)]
mod tests;
