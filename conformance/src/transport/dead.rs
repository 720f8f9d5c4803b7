//! Dead: the nth failure of n is the last. It leaves one letter that says why, from where, after how
//! many attempts and when, and the loop ends there.

use std::time::Duration;

use punctual::clock::{add, subtract};
use punctual::jiff::Timestamp;
use punctual::model::{DeadReason, MessageId};
use punctual::wire::Wire;
use punctual::{Clock, Retry, SystemClock};

use super::Fixture;
use super::fixture::{Act, QUIET, TOLERANCE, eventually, pass, reject, rejection};

behaviours! {
    a_rejected_delivery_is_kept_with_why_and_never_comes_again needs Letters,
    the_last_failure_leaves_one_letter_that_says_why needs Letters,
    what_is_discarded_leaves_a_letter_at_once needs Letters,
    sending_it_again_counts_from_the_beginning,
}

/// Asserts what a letter says of itself.
pub(super) fn check(letter: &Wire, id: MessageId, reason: DeadReason, attempts: u32) {
    let says = |name: &str| letter.header(name).unwrap_or_else(|| panic!("{name} in {letter:?}"));
    assert_eq!(says("punctual-id"), id.to_string());
    assert_eq!(says("punctual-dead-reason"), reason.as_str());
    assert_eq!(says("punctual-dead-topic"), "mail");
    assert_eq!(says("punctual-dead-attempts"), attempts.to_string());
    let at: Timestamp = says("punctual-dead-at").parse().expect("an instant");
    let now = SystemClock.now();
    assert!(at <= add(now, TOLERANCE) && at > subtract(now, Duration::from_mins(5)), "{at}");
}

// Brighter 4386 and 4388: a reject is seen, and says why.
pub async fn a_rejected_delivery_is_kept_with_why_and_never_comes_again(f: Fixture) {
    let mut office = f.subscribe("office").await;
    let mut message = f.message("hello");
    message.headers.insert("tenant", "zażółć").unwrap();
    f.publish(vec![message.clone()]).await;
    let delivery = office.next().await;
    let why = rejection(&delivery, DeadReason::Discarded, "two\nlines of zażółć");
    reject(delivery, &why).await;
    office.is_quiet().await;
    if !f.capabilities.dead_letter {
        return f.refused("it declares no place for dead letters; the storage keeps them");
    }
    let letters = f.dead("office", 1).await;
    assert_eq!(letters.len(), 1);
    check(&letters[0], message.id, DeadReason::Discarded, 1);
    assert!(letters[0].header("punctual-dead-error").unwrap().ends_with("lines of zażółć"));
    assert_eq!(letters[0].header("tenant"), Some("zażółć"));
    assert_eq!(letters[0].body, message.body.bytes);
    assert_eq!(letters[0].content_type, message.body.content_type);
}

// Decision 3.23: at most n calls, the nth failure rejects. Brighter 4353: a real process gets there.
// spec: D-26, D-27, D-28
pub async fn the_last_failure_leaves_one_letter_that_says_why(f: Fixture) {
    let waits = [Duration::ZERO, Duration::from_secs(1)];
    let worker = f.worker("office").retry(Retry::intervals(waits)).start(|_| Act::Fail).await;
    let id = worker.send("hello").await;
    let calls = worker.called("hello", 3).await;
    assert_eq!(calls.iter().map(|call| call.attempt).collect::<Vec<_>>(), [1, 2, 3]);
    let letters = f.letters("office", 1).await;
    check(&letters[0], id, DeadReason::AttemptsSpent, 3);
    assert_eq!(letters[0].header("punctual-dead-error"), Some("the card was declined"));
    pass(QUIET).await;
    assert_eq!(worker.seen().len(), 3, "the third failure was the last call");
    assert_eq!(f.letters("office", 1).await.len(), 1, "exactly once");
    worker.stop().await;
    f.another_node().await.subscribe("office").await.is_quiet().await;
}

pub async fn what_is_discarded_leaves_a_letter_at_once(f: Fixture) {
    let plan = f.worker("office").retry(Retry::intervals([Duration::ZERO]).attempts(5));
    let worker = plan.start(|_| Act::Discard).await;
    let id = worker.send("hello").await;
    let letters = f.letters("office", 1).await;
    check(&letters[0], id, DeadReason::Discarded, 1);
    pass(QUIET).await;
    assert_eq!(worker.seen().len(), 1);
    worker.stop().await;
}

pub async fn sending_it_again_counts_from_the_beginning(f: Fixture) {
    let worker = f
        .worker("office")
        .retry(Retry::intervals([Duration::ZERO]))
        .start({
            let calls = std::sync::atomic::AtomicU32::new(0);
            move |_| match calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
                0..=2 => Act::Fail,
                _ => Act::Done,
            }
        })
        .await;
    let id = worker.send("hello").await;
    worker.called("hello", 2).await;
    let admin = worker.punctual.admin();
    eventually("the dead letter in the storage", || async {
        admin.message(id).await.unwrap().filter(|record| record.dead.is_some())
    })
    .await;
    let answer = admin.redrive(id).await.unwrap();
    assert!(matches!(answer, punctual::storage::CommandResult::Applied { .. }), "{answer:?}");
    let calls = worker.called("hello", 4).await;
    let attempts: Vec<u32> = calls.iter().map(|call| call.attempt).collect();
    assert_eq!(attempts, [1, 2, 1, 2], "the count began again");
    assert!(calls.iter().all(|call| call.id == id));
    worker.stop().await;
}
