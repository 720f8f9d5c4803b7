//! The judgement of small stories: each thing that must not be is found, and nothing else.

use super::*;
use punctual::uuid::Uuid;

fn id(number: u128) -> MessageId {
    MessageId::from_uuid(Uuid::from_u128(number))
}

fn story(process: &str, fate: Fate, lines: &[Line]) -> Story {
    Story { process: process.to_owned(), fate, lines: lines.to_vec() }
}

fn publisher(ids: &[u128]) -> Story {
    let lines: Vec<Line> = ids.iter().map(|number| Line::Acknowledged(id(*number))).collect();
    story("publisher", Fate::Ended, &lines)
}

fn past(succeeded: u32, lost: u32) -> BTreeMap<MessageId, Past> {
    BTreeMap::from([(id(1), Past { succeeded, lost, released: 0 })])
}

fn whole_run(token: u64) -> [Line; 4] {
    let id = id(1);
    [
        Line::Claimed(id, token),
        Line::Started(id, 1, token),
        Line::Finished(id),
        Line::Done(id, token),
    ]
}

#[test]
fn a_message_that_ran_once_is_fine() {
    let stories = [publisher(&[1]), story("a", Fate::Ended, &whole_run(5))];
    let judgement = judge(&stories, &past(1, 0));
    assert!(judgement.is_good(), "{judgement:?}");
    assert_eq!((judgement.acknowledged, judgement.runs, judgement.repeated), (1, 1, 0));
}

#[test]
fn an_acknowledged_message_that_is_not_done_is_lost() {
    let stories = [publisher(&[1]), story("a", Fate::Killed, &whole_run(5)[..2])];
    assert_eq!(judge(&stories, &past(0, 1)).lost, [id(1)]);
    // Done according to the history, but no handler came to its end.
    assert_eq!(judge(&stories, &past(1, 0)).lost, [id(1)]);
    // Nobody ever saw it.
    assert_eq!(judge(&[publisher(&[1])], &BTreeMap::new()).lost, [id(1)]);
}

#[test]
fn a_message_nobody_was_told_about_may_be_missing() {
    let stories = [story("a", Fate::Killed, &whole_run(5)[..2])];
    let judgement = judge(&stories, &past(0, 1));
    assert!(judgement.is_good());
    assert_eq!(judgement.unheard, 1);
}

#[test]
fn a_second_run_after_a_kill_is_explained() {
    let killed = story("a", Fate::Killed, &whole_run(5)[..3]);
    let stories = [publisher(&[1]), killed, story("b", Fate::Ended, &whole_run(7))];
    let judgement = judge(&stories, &past(1, 1));
    assert!(judgement.is_good(), "{judgement:?}");
    assert_eq!((judgement.repeated, judgement.explained_by_kill), (1, 1));
}

#[test]
fn a_second_run_after_a_lost_lease_is_explained() {
    let mut lines = whole_run(5)[..3].to_vec();
    lines.push(Line::LeaseLost(id(1)));
    let paused = story("a", Fate::Ended, &lines);
    let stories = [publisher(&[1]), paused, story("b", Fate::Ended, &whole_run(7))];
    let judgement = judge(&stories, &past(1, 1));
    assert!(judgement.is_good(), "{judgement:?}");
    assert_eq!(judgement.explained_by_lease, 1);
}

#[test]
fn a_second_run_without_a_reason_is_found() {
    let fine = story("a", Fate::Ended, &whole_run(5)[..3]);
    let stories = [publisher(&[1]), fine, story("b", Fate::Ended, &whole_run(7))];
    let judgement = judge(&stories, &past(1, 1));
    assert_eq!(judgement.wrong.len(), 1, "{judgement:?}");
    assert!(judgement.wrong[0].contains("without a reason"));
}

#[test]
fn a_repeat_that_the_history_does_not_know_is_found() {
    let killed = story("a", Fate::Killed, &whole_run(5)[..3]);
    let stories = [publisher(&[1]), killed, story("b", Fate::Ended, &whole_run(7))];
    let judgement = judge(&stories, &past(1, 0));
    assert_eq!(judgement.wrong.len(), 1, "{judgement:?}");
}

#[test]
fn two_successes_and_a_run_after_the_end_are_found() {
    let first = story("a", Fate::Killed, &whole_run(5));
    let again = story("b", Fate::Killed, &whole_run(7)[..2]);
    let judgement = judge(&[publisher(&[1]), first, again], &past(2, 1));
    assert_eq!(judgement.wrong.len(), 2, "{judgement:?}");
    assert!(judgement.wrong[1].contains("after it was done"));
}
