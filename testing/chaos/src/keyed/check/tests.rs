//! Tests of the check of keyed requests: one for each violation.

use super::*;

/// Checks against a lease of the key that server "a" wrote at the start.
fn verify(
    histories: &[KeyHistory],
    stored: &BTreeMap<String, Vec<StoredMessage>>,
) -> KeyedCheckResult {
    super::verify(histories, stored, &leases(&[0]))
}

fn leases(at_ms: &[u64]) -> LeaseFacts {
    let lease = |at_ms: &u64| KeyLease { at_ms: *at_ms, server: "a".to_owned(), is_proven: true };
    let leases = BTreeMap::from([("k".to_owned(), at_ms.iter().map(lease).collect())]);
    LeaseFacts { leases, servers: BTreeMap::new() }
}

/// Checks a key that was refused once a second, or not answered, and then answered.
fn verify_refused(mut result: Vec<RequestResult>, facts: &LeaseFacts) -> KeyedCheckResult {
    result.push(answered(&["a"], true));
    super::verify(&[history(1, result)], &stored(&[(0, "a")]), facts)
}

fn answered(ids: &[&str], is_replay: bool) -> RequestResult {
    RequestResult::Answered { ids: ids.iter().map(ToString::to_string).collect(), is_replay }
}

fn history(messages: usize, result: Vec<RequestResult>) -> KeyHistory {
    let attempts = result.into_iter().zip(0..);
    let attempts = attempts.map(|(result, n)| RequestAttempt {
        port: 1,
        from_ms: n * 1_000,
        to_ms: n * 1_000 + 10,
        concurrent: n == 2,
        result,
    });
    KeyHistory { key: "k".to_owned(), messages, attempts: attempts.collect() }
}

fn stored(messages_stored: &[(u64, &str)]) -> BTreeMap<String, Vec<StoredMessage>> {
    let message =
        |(position, id): &(u64, &str)| StoredMessage { position: *position, id: (*id).to_owned() };
    BTreeMap::from([("k".to_owned(), messages_stored.iter().map(message).collect())])
}

#[test]
fn one_effect_and_one_response_pass() {
    let result = vec![
        RequestResult::NoResponse,
        RequestResult::Failed("503 away".to_owned()),
        RequestResult::InFlight,
        answered(&["a", "b"], true),
        answered(&["a", "b"], true),
    ];
    let check_result = verify(&[history(2, result)], &stored(&[(1, "b"), (0, "a")]));
    assert!(check_result.is_good(), "{check_result:?}");
    assert_eq!((check_result.repeated, check_result.taken_over, check_result.batches), (1, 1, 1));
    assert_eq!((check_result.requests, check_result.answered, check_result.replays), (5, 2, 2));
    assert_eq!(
        (check_result.unanswered, check_result.in_flight, check_result.concurrent),
        (1, 1, 1)
    );
    assert_eq!((check_result.refused, check_result.waited), (1, 0));
    assert_eq!(check_result.failed, BTreeMap::from([("503 away".to_owned(), 1)]));
}

#[test]
fn a_second_set_of_messages_is_found() {
    let result = vec![answered(&["a"], false)];
    let check_result = verify(&[history(1, result)], &stored(&[(0, "a"), (0, "b")]));
    assert_eq!(check_result.duplicated, 1);
    assert!(!check_result.is_good());
}

#[test]
fn a_missing_message_is_found() {
    let result = vec![answered(&["a", "b"], false)];
    assert!(!verify(&[history(2, result.clone())], &stored(&[(0, "a")])).is_good());
    assert!(!verify(&[history(2, result)], &BTreeMap::new()).is_good());
}

#[test]
fn differing_responses_are_found() {
    let result = vec![answered(&["a"], false), answered(&["b"], true)];
    assert_eq!(verify(&[history(1, result)], &stored(&[(0, "a")])).differing, 1);
    let result = vec![answered(&["b"], false)];
    assert_eq!(verify(&[history(1, result)], &stored(&[(0, "a")])).differing, 1);
}

#[test]
fn a_key_that_is_never_answered_is_found() {
    assert!(!verify(&[history(1, vec![RequestResult::NoResponse])], &BTreeMap::new()).is_good());
    assert!(!verify(&[history(1, vec![RequestResult::NotSent])], &BTreeMap::new()).is_good());
}

#[test]
fn a_key_that_is_refused_for_longer_than_a_lease_is_found() {
    let check_result = verify_refused(vec![RequestResult::InFlight; 13], &leases(&[0]));
    assert_eq!((check_result.in_flight_ms, check_result.waited), (12_000, 1));
    assert!(check_result.is_good(), "{check_result:?}");
    let check_result = verify_refused(vec![RequestResult::InFlight; 14], &leases(&[0]));
    assert_eq!((check_result.in_flight_ms, check_result.refused_ms), (13_000, 13_010));
    assert_eq!(check_result.violations.len(), 1, "{check_result:?}");
}

#[test]
fn only_a_proven_lease_begins_a_new_time() {
    let mut result = vec![RequestResult::InFlight; 16];
    for unanswered in [3, 6, 7, 9] {
        result[unanswered] = RequestResult::NoResponse;
    }
    result[12] = RequestResult::NotSent;
    let check_result = verify_refused(result.clone(), &leases(&[0]));
    assert_eq!((check_result.unanswered, check_result.not_sent), (4, 1));
    assert_eq!((check_result.in_flight_ms, check_result.is_good()), (15_000, false));
    let check_result = verify_refused(result.clone(), &leases(&[0, 7_500]));
    assert!(check_result.is_good(), "{check_result:?}");
    assert_eq!((check_result.in_flight_ms, check_result.refused_ms), (7_500, 15_010));
    let late = verify_refused(result, &leases(&[0, 15_500]));
    assert!(!late.is_good(), "a lease that was written after the refusal does not explain it");
}

#[test]
fn a_refusal_and_a_response_without_a_lease_are_found() {
    let check_result = verify_refused(vec![RequestResult::InFlight], &leases(&[11]));
    assert_eq!(check_result.violations, ["k was refused as in flight without a lease"]);
    let check_result = verify_refused(Vec::new(), &LeaseFacts::default());
    assert_eq!(check_result.violations, ["k was answered without a lease"]);
}

#[test]
fn a_resumed_server_may_refuse_because_of_its_own_lease() {
    let resumed = |server: &str, port: u16, at_ms: u64| {
        let servers = [(server.to_owned(), ServerFacts { port, resumed_ms: vec![at_ms] })];
        let facts = LeaseFacts { servers: BTreeMap::from(servers), ..leases(&[0]) };
        verify_refused(vec![RequestResult::InFlight; 15], &facts)
    };
    let check_result = resumed("a", 1, 13_005);
    assert_eq!((check_result.own_request, check_result.in_flight_ms), (2, 12_000));
    assert!(check_result.is_good(), "{check_result:?}");
    assert!(!resumed("a", 1, 10_500).is_good(), "it had time to renew the lease");
    assert!(!resumed("a", 1, 14_500).is_good(), "it was still paused at the first one");
    assert!(!resumed("a", 2, 13_005).is_good(), "another server refused it");
    assert!(!resumed("b", 1, 13_005).is_good(), "another server owns the lease");
}

#[test]
fn a_server_may_refuse_while_it_writes_the_first_lease() {
    let refused = |at_ms: u64, port: u16, is_proven: bool| {
        let lease = KeyLease { at_ms, server: "b".to_owned(), is_proven };
        let second = KeyLease { at_ms: 6_500, server: "a".to_owned(), is_proven: true };
        let leases = BTreeMap::from([("k".to_owned(), vec![lease, second])]);
        let servers = BTreeMap::from([("b".to_owned(), ServerFacts { port, resumed_ms: vec![] })]);
        let mut result = vec![RequestResult::NoResponse; 7];
        result[3] = RequestResult::InFlight;
        verify_refused(result, &LeaseFacts { leases, servers })
    };
    let check_result = refused(2_900, 1, false);
    assert_eq!((check_result.own_request, check_result.is_good()), (1, true));
    assert!(!refused(2_900, 2, false).is_good(), "another server refused it");
    assert!(!refused(500, 1, false).is_good(), "a write that takes this long is not finished");
    assert!(!refused(3_500, 1, false).is_good(), "the write began after the refusal");
    assert_eq!(refused(500, 2, true).own_request, 0, "a proven lease explains it everywhere");
}

#[test]
fn an_unsent_message_and_an_unexpected_response_are_found() {
    assert!(!verify(&[], &stored(&[(0, "a")])).is_good());
    let result = vec![RequestResult::Unexpected("422 other".to_owned()), answered(&["a"], false)];
    assert!(!verify(&[history(1, result)], &stored(&[(0, "a")])).is_good());
}
