//! Tests of lost processes, by options and crash budget.

use super::*;
use crate::model::{Retry, Route, StateChange, TransportName};
use crate::policy::verdict::tests::{at, facts, handler_options, message, secs};
use crate::policy::{AttemptEnd, EffectiveHandlerOptions, judge};

fn rescued(
    handler_options: &EffectiveHandlerOptions,
    attempt: u32,
    crashes: u32,
) -> AttemptDecision {
    let message = message();
    rescue(&AttemptFacts { attempt, crashes, ..facts(&message, handler_options) })
}

fn again(decision: &AttemptDecision) -> (i64, u32, u32) {
    assert_eq!(decision.ending, Ending::Lost);
    assert_eq!(decision.verdict.change(), StateChange::Rescue);
    match decision.verdict {
        Verdict::Again { due_at, attempt, crashes, .. } => (due_at.as_second(), attempt, crashes),
        ref other => panic!("{other:?}"),
    }
}

fn dead(decision: &AttemptDecision) -> DeadReason {
    assert_eq!(decision.ending, Ending::Lost);
    match decision.verdict {
        Verdict::Dead { reason, .. } => reason,
        ref other => panic!("{other:?}"),
    }
}

// spec: H-5, H-7, H-77
#[test]
fn a_lost_message_is_due_at_once_with_its_attempt_given_back() {
    // Also with a single attempt: a crash is not a failure.
    for handler_options in [handler_options(), EffectiveHandlerOptions::recurring()] {
        for crashes in 0..5 {
            assert_eq!(again(&rescued(&handler_options, 1, crashes)), (5_000, 0, crashes + 1));
        }
    }
    let decision = rescued(&handler_options(), 1, 1);
    assert_eq!(decision.note.as_deref(), Some("its process was lost (crash 2)"));
}

// spec: H-8
#[test]
fn beyond_the_crash_budget_each_crash_spends_an_attempt() {
    let handler_options = EffectiveHandlerOptions { crashes_max: 2, ..handler_options() };
    assert_eq!(again(&rescued(&handler_options, 1, 1)), (5_000, 0, 2));
    assert_eq!(again(&rescued(&handler_options, 1, 2)), (5_060, 1, 3));
    assert_eq!(again(&rescued(&handler_options, 2, 3)), (5_120, 2, 4));
    assert_eq!(dead(&rescued(&handler_options, 3, 4)), DeadReason::CrashLoop);
    assert_eq!(
        dead(&rescued(
            &EffectiveHandlerOptions { crashes_max: 2, ..EffectiveHandlerOptions::recurring() },
            1,
            2
        )),
        DeadReason::CrashLoop
    );
    let forgiving = EffectiveHandlerOptions { crashes_max: 0, ..handler_options };
    assert_eq!(again(&rescued(&forgiving, 3, 1_000)), (5_000, 2, 1_001));
    assert_eq!(again(&rescued(&forgiving, 3, u32::MAX)), (5_000, 2, u32::MAX));
}

// spec: T-25, T-26
#[test]
fn a_lost_one_time_job_waits_like_after_a_failure_and_dies_when_its_retries_are_spent() {
    // Planned 900 seconds ahead: a tenth, two tenths, three tenths.
    let handler_options = EffectiveHandlerOptions::deferred();
    assert_eq!(again(&rescued(&handler_options, 1, 0)), (5_090, 1, 1));
    assert_eq!(again(&rescued(&handler_options, 2, 1)), (5_180, 2, 2));
    assert_eq!(again(&rescued(&handler_options, 3, 2)), (5_270, 3, 3));
    assert_eq!(dead(&rescued(&handler_options, 4, 3)), DeadReason::AttemptsSpent);
}

#[test]
fn a_crash_never_resets_the_retry_budget() {
    let handler_options = EffectiveHandlerOptions {
        retry: Retry::intervals([secs(1); 2]),
        crashes_max: 5,
        ..EffectiveHandlerOptions::default()
    };
    let message = message();
    // Two failures, then crashes: the third attempt stays the third.
    let mut spent = 2;
    for crashes in 0..5 {
        let (due_at, attempt, _) = again(&rescued(&handler_options, spent + 1, crashes));
        assert_eq!(due_at, at(5_000).as_second());
        spent = attempt;
    }
    assert_eq!(spent, 2);
    let last = AttemptFacts { attempt: spent + 1, crashes: 5, ..facts(&message, &handler_options) };
    let error = Arc::from("no route");
    let decision = judge(&last, AttemptEnd::Failed { error });
    assert!(matches!(decision.verdict, Verdict::Dead { reason: DeadReason::AttemptsSpent, .. }));
}

#[test]
fn a_lost_message_that_was_to_be_cancelled_is_cancelled() {
    let (message, handler_options) = (message(), handler_options());
    let decision =
        rescue(&AttemptFacts { cancel_requested: true, ..facts(&message, &handler_options) });
    assert_eq!((decision.verdict, decision.ending), (Verdict::Cancelled, Ending::Lost));
}

/// Handler options by which a message is not run again.
fn lost_when_interrupted() -> EffectiveHandlerOptions {
    EffectiveHandlerOptions { when_interrupted: WhenInterrupted::Lost, ..handler_options() }
}

// Finding P9 of the newcomer's review.
#[test]
fn a_message_that_is_not_run_again_is_dead_after_a_crash_and_after_a_shutdown() {
    let message = message();
    for rescue_as in [Rescue::AtOnce, Rescue::AsFailure] {
        let handler_options = EffectiveHandlerOptions {
            rescue: rescue_as,
            crashes_max: 0,
            ..lost_when_interrupted()
        };
        let facts = facts(&message, &handler_options);
        for decision in [rescue(&facts), judge(&facts, AttemptEnd::Interrupted)] {
            assert_eq!(dead(&decision), DeadReason::Interrupted);
            assert_eq!(decision.note.as_deref(), Some(INTERRUPTED_ERROR));
        }
    }
}

#[test]
fn what_is_not_run_again_when_interrupted_is_still_retried_and_released() {
    let (message, handler_options) = (message(), lost_when_interrupted());
    let facts = facts(&message, &handler_options);
    let error: Arc<str> = Arc::from("no route");
    assert_eq!(judge(&facts, AttemptEnd::Failed { error }).verdict.change(), StateChange::Retry);
    assert_eq!(judge(&facts, AttemptEnd::Released).verdict.change(), StateChange::Release);
    let cancelled = AttemptFacts { cancel_requested: true, ..facts };
    assert_eq!(rescue(&cancelled).verdict, Verdict::Cancelled);
    assert_eq!(judge(&cancelled, AttemptEnd::Interrupted).verdict, Verdict::Cancelled);
}

#[test]
fn a_message_on_its_way_to_a_transport_is_sent_again_after_a_crash() {
    let (mut message, handler_options) = (message(), lost_when_interrupted());
    message.route = Some(Arc::new(Route::new(TransportName::new("broker").unwrap())));
    assert_eq!(again(&rescue(&facts(&message, &handler_options))), (5_000, 0, 1));
}
