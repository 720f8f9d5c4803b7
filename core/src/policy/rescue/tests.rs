//! What the loss of a process means, by terms and crash budget.

use super::*;
use crate::model::StateChange;
use crate::policy::EffectiveTerms;
use crate::policy::Retry;
use crate::policy::verdict::tests::{at, case, message, secs, terms};

fn rescued(terms: &EffectiveTerms, attempt: u32, crashes: u32) -> Judged {
    let message = message();
    rescue(&Case { attempt, crashes, ..case(&message, terms) })
}

fn again(judged: &Judged) -> (i64, u32, u32) {
    assert_eq!(judged.ending, Ending::Lost);
    assert_eq!(judged.verdict.change(), StateChange::Rescue);
    match judged.verdict {
        Verdict::Again { due_at, attempt, crashes, .. } => (due_at.as_second(), attempt, crashes),
        ref other => panic!("{other:?}"),
    }
}

fn dead(judged: &Judged) -> DeadReason {
    assert_eq!(judged.ending, Ending::Lost);
    match judged.verdict {
        Verdict::Dead { reason, .. } => reason,
        ref other => panic!("{other:?}"),
    }
}

// spec: H-5, H-7, H-77
#[test]
fn a_lost_message_is_due_at_once_with_its_attempt_given_back() {
    // Also with a single attempt: a crash is not a failure.
    for terms in [terms(), EffectiveTerms::recurring()] {
        for crashes in 0..5 {
            assert_eq!(again(&rescued(&terms, 1, crashes)), (5_000, 0, crashes + 1));
        }
    }
    let judged = rescued(&terms(), 1, 1);
    assert_eq!(judged.note.as_deref(), Some("its process was lost (crash 2)"));
}

// spec: H-8
#[test]
fn beyond_the_crash_budget_each_crash_spends_an_attempt() {
    let terms = EffectiveTerms { crashes_max: 2, ..terms() };
    assert_eq!(again(&rescued(&terms, 1, 1)), (5_000, 0, 2));
    assert_eq!(again(&rescued(&terms, 1, 2)), (5_060, 1, 3));
    assert_eq!(again(&rescued(&terms, 2, 3)), (5_120, 2, 4));
    assert_eq!(dead(&rescued(&terms, 3, 4)), DeadReason::CrashLoop);
    assert_eq!(
        dead(&rescued(&EffectiveTerms { crashes_max: 2, ..EffectiveTerms::recurring() }, 1, 2)),
        DeadReason::CrashLoop
    );
    let forgiving = EffectiveTerms { crashes_max: 0, ..terms };
    assert_eq!(again(&rescued(&forgiving, 3, 1_000)), (5_000, 2, 1_001));
    assert_eq!(again(&rescued(&forgiving, 3, u32::MAX)), (5_000, 2, u32::MAX));
}

// spec: T-25, T-26
#[test]
fn a_lost_one_time_job_waits_like_after_a_failure_and_dies_when_its_retries_are_spent() {
    // Planned 900 seconds ahead: a tenth, two tenths, three tenths.
    let terms = EffectiveTerms::deferred();
    assert_eq!(again(&rescued(&terms, 1, 0)), (5_090, 1, 1));
    assert_eq!(again(&rescued(&terms, 2, 1)), (5_180, 2, 2));
    assert_eq!(again(&rescued(&terms, 3, 2)), (5_270, 3, 3));
    assert_eq!(dead(&rescued(&terms, 4, 3)), DeadReason::AttemptsSpent);
}

#[test]
fn a_crash_never_resets_the_retry_budget() {
    let terms = EffectiveTerms {
        retry: Retry::intervals([secs(1); 2]),
        crashes_max: 5,
        ..EffectiveTerms::default()
    };
    let message = message();
    // Two failures, then crashes: the third attempt stays the third.
    let mut spent = 2;
    for crashes in 0..5 {
        let (due_at, attempt, _) = again(&rescued(&terms, spent + 1, crashes));
        assert_eq!(due_at, at(5_000).as_second());
        spent = attempt;
    }
    assert_eq!(spent, 2);
    let last = Case { attempt: spent + 1, crashes: 5, ..case(&message, &terms) };
    let error = Arc::from("no route");
    let judged = crate::policy::judge(&last, crate::policy::Report::Failed { error });
    assert!(matches!(judged.verdict, Verdict::Dead { reason: DeadReason::AttemptsSpent, .. }));
}

#[test]
fn a_lost_message_that_was_to_be_cancelled_is_cancelled() {
    let (message, terms) = (message(), terms());
    let judged = rescue(&Case { cancel_requested: true, ..case(&message, &terms) });
    assert_eq!((judged.verdict, judged.ending), (Verdict::Cancelled, Ending::Lost));
}
