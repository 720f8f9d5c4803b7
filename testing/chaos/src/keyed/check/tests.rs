//! Tests of the check of keyed requests: one for each violation.

use super::*;

fn answered(ids: &[&str], is_replay: bool) -> RequestResult {
    RequestResult::Answered { ids: ids.iter().map(ToString::to_string).collect(), is_replay }
}

fn history(messages: usize, result: Vec<RequestResult>) -> KeyHistory {
    let attempts = result.into_iter().zip(0..);
    let attempts = attempts.map(|(result, n)| RequestAttempt {
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
fn a_key_that_is_refused_for_too_long_or_for_ever_is_found() {
    let mut result = vec![RequestResult::InFlight; 13];
    result.push(answered(&["a"], true));
    let check_result = verify(&[history(1, result)], &stored(&[(0, "a")]));
    assert_eq!((check_result.in_flight_ms, check_result.waited), (12_010, 1));
    assert!(!check_result.is_good());
    assert!(!verify(&[history(1, vec![RequestResult::NoResponse])], &BTreeMap::new()).is_good());
}

#[test]
fn a_request_without_a_response_may_have_taken_the_lease() {
    let taken_over = |last: usize| {
        let mut result = vec![RequestResult::InFlight; 8];
        result.push(RequestResult::NoResponse);
        result.extend(vec![RequestResult::InFlight; last]);
        result.push(answered(&["a"], true));
        verify(&[history(1, result)], &stored(&[(0, "a")]))
    };
    let check_result = taken_over(8);
    assert_eq!((check_result.in_flight_ms, check_result.is_good()), (8_000, true));
    assert!(!taken_over(13).is_good(), "refused for longer than a lease after it");
}

#[test]
fn an_unsent_message_and_an_unexpected_response_are_found() {
    assert!(!verify(&[], &stored(&[(0, "a")])).is_good());
    let result = vec![RequestResult::Unexpected("422 other".to_owned()), answered(&["a"], false)];
    assert!(!verify(&[history(1, result)], &stored(&[(0, "a")])).is_good());
}
