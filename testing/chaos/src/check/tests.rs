//! Tests of the check on small ledgers: every violation is found, and nothing else.

use super::*;
use punctual::uuid::Uuid;

fn id(number: u128) -> MessageId {
    MessageId::from_uuid(Uuid::from_u128(number))
}

fn ledger(process: &str, end: ProcessEnd, events: &[LedgerEvent]) -> ProcessLedger {
    ProcessLedger { process: process.to_owned(), end, events: events.to_vec() }
}

fn publisher(ids: &[u128]) -> ProcessLedger {
    let events: Vec<LedgerEvent> =
        ids.iter().map(|number| LedgerEvent::Acknowledged(id(*number))).collect();
    ledger("publisher", ProcessEnd::Stopped, &events)
}

fn attempts(succeeded: u32, lost: u32) -> BTreeMap<MessageId, MessageHistory> {
    BTreeMap::from([(id(1), MessageHistory { succeeded, lost, released: 0 })])
}

fn whole_run(token: u64) -> [LedgerEvent; 4] {
    let id = id(1);
    [
        LedgerEvent::Claimed(id, token),
        LedgerEvent::Started(id, 1, token),
        LedgerEvent::Finished(id),
        LedgerEvent::Done(id, token),
    ]
}

#[test]
fn a_message_that_ran_once_passes() {
    let ledgers = [publisher(&[1]), ledger("a", ProcessEnd::Stopped, &whole_run(5))];
    let result = verify(&ledgers, &attempts(1, 0));
    assert!(result.is_good(), "{result:?}");
    assert_eq!((result.acknowledged, result.runs, result.repeated), (1, 1, 0));
}

#[test]
fn an_acknowledged_message_that_is_not_done_is_lost() {
    let ledgers = [publisher(&[1]), ledger("a", ProcessEnd::Killed, &whole_run(5)[..2])];
    assert_eq!(verify(&ledgers, &attempts(0, 1)).lost, [id(1)]);
    // Done according to the history, but no handler ended.
    assert_eq!(verify(&ledgers, &attempts(1, 0)).lost, [id(1)]);
    // No process claimed it.
    assert_eq!(verify(&[publisher(&[1])], &BTreeMap::new()).lost, [id(1)]);
}

#[test]
fn an_unacknowledged_message_may_be_missing() {
    let ledgers = [ledger("a", ProcessEnd::Killed, &whole_run(5)[..2])];
    let result = verify(&ledgers, &attempts(0, 1));
    assert!(result.is_good());
    assert_eq!(result.unacknowledged, 1);
}

#[test]
fn a_second_run_after_a_kill_is_explained() {
    let killed = ledger("a", ProcessEnd::Killed, &whole_run(5)[..3]);
    let ledgers = [publisher(&[1]), killed, ledger("b", ProcessEnd::Stopped, &whole_run(7))];
    let result = verify(&ledgers, &attempts(1, 1));
    assert!(result.is_good(), "{result:?}");
    assert_eq!((result.repeated, result.explained_by_kill), (1, 1));
}

#[test]
fn a_second_run_after_a_lost_lease_is_explained() {
    let mut events = whole_run(5)[..3].to_vec();
    events.push(LedgerEvent::LeaseLost(id(1)));
    let paused = ledger("a", ProcessEnd::Stopped, &events);
    let ledgers = [publisher(&[1]), paused, ledger("b", ProcessEnd::Stopped, &whole_run(7))];
    let result = verify(&ledgers, &attempts(1, 1));
    assert!(result.is_good(), "{result:?}");
    assert_eq!(result.explained_by_lease, 1);
}

#[test]
fn a_second_run_without_a_reason_is_found() {
    let fine = ledger("a", ProcessEnd::Stopped, &whole_run(5)[..3]);
    let ledgers = [publisher(&[1]), fine, ledger("b", ProcessEnd::Stopped, &whole_run(7))];
    let result = verify(&ledgers, &attempts(1, 1));
    assert_eq!(result.violations.len(), 1, "{result:?}");
    assert!(result.violations[0].contains("without a reason"));
}

#[test]
fn a_repeat_without_a_lost_attempt_in_the_history_is_found() {
    let killed = ledger("a", ProcessEnd::Killed, &whole_run(5)[..3]);
    let ledgers = [publisher(&[1]), killed, ledger("b", ProcessEnd::Stopped, &whole_run(7))];
    let result = verify(&ledgers, &attempts(1, 0));
    assert_eq!(result.violations.len(), 1, "{result:?}");
}

#[test]
fn two_successes_and_a_run_after_the_end_are_found() {
    let first = ledger("a", ProcessEnd::Killed, &whole_run(5));
    let again = ledger("b", ProcessEnd::Killed, &whole_run(7)[..2]);
    let result = verify(&[publisher(&[1]), first, again], &attempts(2, 1));
    assert_eq!(result.violations.len(), 2, "{result:?}");
    assert!(result.violations[1].contains("after it was done"));
}
