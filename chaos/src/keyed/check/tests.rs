//! One test for each thing that the judgement must find.

use super::*;

fn answered(ids: &[&str], is_replay: bool) -> Seen {
    Seen::Answered { ids: ids.iter().map(ToString::to_string).collect(), is_replay }
}

fn story(messages: usize, seen: Vec<Seen>) -> Story {
    let tries = seen.into_iter().zip(0..);
    let tries = tries.map(|(seen, n)| Try {
        from_ms: n * 1_000,
        to_ms: n * 1_000 + 10,
        beside: n == 2,
        seen,
    });
    Story { key: "k".to_owned(), messages, tries: tries.collect() }
}

fn stored(effects: &[(u64, &str)]) -> BTreeMap<String, Vec<Effect>> {
    let effect =
        |(position, id): &(u64, &str)| Effect { position: *position, id: (*id).to_owned() };
    BTreeMap::from([("k".to_owned(), effects.iter().map(effect).collect())])
}

#[test]
fn one_effect_and_one_answer_are_good() {
    let seen = vec![
        Seen::Broken,
        Seen::Failed("503 away".to_owned()),
        Seen::UnderWay,
        answered(&["a", "b"], true),
        answered(&["a", "b"], true),
    ];
    let judgement = judge(&[story(2, seen)], &stored(&[(1, "b"), (0, "a")]));
    assert!(judgement.is_good(), "{judgement:?}");
    assert_eq!((judgement.repeated, judgement.taken_over, judgement.batches), (1, 1, 1));
    assert_eq!((judgement.requests, judgement.answered, judgement.replays), (5, 2, 2));
    assert_eq!((judgement.broken, judgement.under_way, judgement.beside), (1, 1, 1));
    assert_eq!((judgement.leased, judgement.waited), (1, 0));
    assert_eq!(judgement.failed, BTreeMap::from([("503 away".to_owned(), 1)]));
}

#[test]
fn a_second_set_of_messages_is_found() {
    let seen = vec![answered(&["a"], false)];
    let judgement = judge(&[story(1, seen)], &stored(&[(0, "a"), (0, "b")]));
    assert_eq!(judgement.twice, 1);
    assert!(!judgement.is_good());
}

#[test]
fn a_message_that_is_missing_is_found() {
    let seen = vec![answered(&["a", "b"], false)];
    assert!(!judge(&[story(2, seen.clone())], &stored(&[(0, "a")])).is_good());
    assert!(!judge(&[story(2, seen)], &BTreeMap::new()).is_good());
}

#[test]
fn answers_that_differ_are_found() {
    let seen = vec![answered(&["a"], false), answered(&["b"], true)];
    assert_eq!(judge(&[story(1, seen)], &stored(&[(0, "a")])).differing, 1);
    let seen = vec![answered(&["b"], false)];
    assert_eq!(judge(&[story(1, seen)], &stored(&[(0, "a")])).differing, 1);
}

#[test]
fn a_key_that_is_refused_for_too_long_or_for_ever_is_found() {
    let mut seen = vec![Seen::UnderWay; 13];
    seen.push(answered(&["a"], true));
    let judgement = judge(&[story(1, seen)], &stored(&[(0, "a")]));
    assert_eq!((judgement.under_way_ms, judgement.waited), (12_010, 1));
    assert!(!judgement.is_good());
    assert!(!judge(&[story(1, vec![Seen::Broken])], &BTreeMap::new()).is_good());
}

#[test]
fn what_nobody_sent_and_a_wrong_answer_are_found() {
    assert!(!judge(&[], &stored(&[(0, "a")])).is_good());
    let seen = vec![Seen::Wrong("422 other".to_owned()), answered(&["a"], false)];
    assert!(!judge(&[story(1, seen)], &stored(&[(0, "a")])).is_good());
}
