//! Dead letters: the last allowed failure ends a message and leaves one dead letter with reason, topic, number of
//! attempts and time.

use std::time::Duration;

use punctual::backend::wire::Wire;
use punctual::clock::{add, subtract};
use punctual::jiff::Timestamp;
use punctual::model::{DeadReason, MessageId};
use punctual::{Clock, Retry, SystemClock};

use super::Fixture;
use super::fixture::{Action, QUIET, TOLERANCE, eventually, reject, rejection, sleep};

behaviours! {
    a_rejected_delivery_is_kept_with_its_reason_and_never_redelivered needs DeadLetters,
    the_last_failure_leaves_one_dead_letter_with_its_reason needs DeadLetters,
    a_discarded_message_becomes_a_dead_letter_at_once needs DeadLetters,
    a_redrive_counts_attempts_from_the_beginning,
}

/// Asserts the headers of a dead letter.
pub(super) fn check(letter: &Wire, id: MessageId, reason: DeadReason, attempts: u32) {
    let header = |name: &str| letter.header(name).unwrap_or_else(|| panic!("{name} in {letter:?}"));
    assert_eq!(header("punctual-id"), id.to_string());
    assert_eq!(header("punctual-dead-reason"), reason.as_str());
    assert_eq!(header("punctual-dead-topic"), "mail");
    assert_eq!(header("punctual-dead-attempts"), attempts.to_string());
    let at: Timestamp = header("punctual-dead-at").parse().expect("an instant");
    let now = SystemClock.now();
    assert!(at <= add(now, TOLERANCE) && at > subtract(now, Duration::from_mins(5)), "{at}");
}

// Brighter 4386 and 4388: a reject is visible, with its reason.
pub async fn a_rejected_delivery_is_kept_with_its_reason_and_never_redelivered(f: Fixture) {
    let mut office = f.subscribe("office").await;
    let mut message = f.message("hello");
    message.headers.insert("tenant", "zażółć").unwrap();
    f.publish(vec![message.clone()]).await;
    let delivery = office.next().await;
    let why = rejection(&delivery, DeadReason::Discarded, "two\nlines of zażółć");
    reject(delivery, &why).await;
    office.expect_nothing().await;
    if !f.capabilities.dead_letter {
        return f.refused("it declares no dead letters; the storage keeps them");
    }
    let letters = f.dead("office", 1).await;
    assert_eq!(letters.len(), 1);
    check(&letters[0], message.id, DeadReason::Discarded, 1);
    assert!(letters[0].header("punctual-dead-error").unwrap().ends_with("lines of zażółć"));
    assert_eq!(letters[0].header("tenant"), Some("zażółć"));
    assert_eq!(letters[0].body, message.body.bytes);
    assert_eq!(letters[0].content_type, message.body.content_type);
}

// Decision 3.23: at most n calls, the nth failure rejects. Brighter 4353: tested with a real process.
// spec: D-26, D-27, D-28
pub async fn the_last_failure_leaves_one_dead_letter_with_its_reason(f: Fixture) {
    let waits = [Duration::ZERO, Duration::from_secs(1)];
    let worker = f.worker("office").retry(Retry::intervals(waits)).start(|_| Action::Fail).await;
    let id = worker.send("hello").await;
    let calls = worker.wait_for_calls("hello", 3).await;
    assert_eq!(calls.iter().map(|call| call.attempt).collect::<Vec<_>>(), [1, 2, 3]);
    let letters = f.dead_letters("office", 1).await;
    check(&letters[0], id, DeadReason::AttemptsSpent, 3);
    assert_eq!(letters[0].header("punctual-dead-error"), Some("the card was declined"));
    sleep(QUIET).await;
    assert_eq!(worker.calls().len(), 3, "the third failure was the last call");
    assert_eq!(f.dead_letters("office", 1).await.len(), 1, "exactly once");
    worker.stop().await;
    f.another_node().await.subscribe("office").await.expect_nothing().await;
}

pub async fn a_discarded_message_becomes_a_dead_letter_at_once(f: Fixture) {
    let builder = f.worker("office").retry(Retry::intervals([Duration::ZERO]).attempts(5));
    let worker = builder.start(|_| Action::Discard).await;
    let id = worker.send("hello").await;
    let letters = f.dead_letters("office", 1).await;
    check(&letters[0], id, DeadReason::Discarded, 1);
    sleep(QUIET).await;
    assert_eq!(worker.calls().len(), 1);
    worker.stop().await;
}

pub async fn a_redrive_counts_attempts_from_the_beginning(f: Fixture) {
    let worker = f
        .worker("office")
        .retry(Retry::intervals([Duration::ZERO]))
        .start({
            let calls = std::sync::atomic::AtomicU32::new(0);
            move |_| match calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
                0..=2 => Action::Fail,
                _ => Action::Done,
            }
        })
        .await;
    let id = worker.send("hello").await;
    worker.wait_for_calls("hello", 2).await;
    let admin = worker.punctual.admin();
    eventually("the dead letter in the storage", || async {
        admin.message(id).await.unwrap().filter(|record| record.dead.is_some())
    })
    .await;
    let answer = admin.redrive(id).await.unwrap();
    assert!(
        matches!(answer, punctual::backend::storage::CommandResult::Applied { .. }),
        "{answer:?}"
    );
    let calls = worker.wait_for_calls("hello", 4).await;
    let attempts: Vec<u32> = calls.iter().map(|call| call.attempt).collect();
    assert_eq!(attempts, [1, 2, 1, 2], "the count began again");
    assert!(calls.iter().all(|call| call.id == id));
    worker.stop().await;
}
