//! Tests of every end of an attempt with each number of attempts left.

use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::model::{
    Body, Correlation, Headers, MessageId, MessageState, Priority, Queue, Retry, Source, Topic,
    WhenInterrupted,
};

pub(in crate::policy) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

pub(in crate::policy) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A message planned 900 seconds ahead.
pub(in crate::policy) fn message() -> Message {
    Message {
        id: MessageId::from_uuid(Uuid::from_u128(7)),
        topic: Topic::new("mail").unwrap(),
        queue: Queue::default(),
        priority: Priority::NORMAL,
        due_at: at(1_000),
        created_at: at(100),
        source: Source::Published,
        key: None,
        dedupe: None,
        exclusive: false,
        body: Body::empty(),
        headers: Headers::new(),
        correlation: Correlation::default(),
        occurrence: None,
        handler_options: None,
        relations: None,
        route: None,
    }
}

/// The first attempt of three, a minute apart.
pub(in crate::policy) fn handler_options() -> EffectiveHandlerOptions {
    EffectiveHandlerOptions {
        retry: Retry::intervals([secs(60), secs(120)]),
        ..EffectiveHandlerOptions::default()
    }
}

pub(in crate::policy) fn facts<'a>(
    message: &'a Message,
    handler_options: &'a EffectiveHandlerOptions,
) -> AttemptFacts<'a> {
    AttemptFacts {
        message,
        attempt: 1,
        crashes: 0,
        snoozes: 0,
        handler_options,
        cancel_requested: false,
        now: at(5_000),
    }
}

fn text(text: &str) -> Arc<str> {
    Arc::from(text)
}

fn failed() -> AttemptEnd {
    AttemptEnd::Failed { error: text("no route") }
}

fn again(due_at: i64, attempt: u32, error: Option<&str>, why: AgainReason) -> Verdict {
    Verdict::Again {
        due_at: at(due_at),
        attempt,
        crashes: 0,
        snoozes: 0,
        error: error.map(text),
        why,
    }
}

#[test]
fn done_is_done() {
    let (message, handler_options) = (message(), handler_options());
    let decision = judge(&facts(&message, &handler_options), AttemptEnd::Done);
    assert_eq!(
        decision,
        AttemptDecision { verdict: Verdict::Done, ending: Ending::Succeeded, note: None }
    );
}

// spec: H-8, U-26, T-10, T-30
#[test]
fn a_failure_is_tried_again_until_the_attempts_are_spent() {
    let (message, handler_options) = (message(), handler_options());
    for (attempt, verdict) in [
        (1, again(5_060, 1, Some("no route"), AgainReason::Retry)),
        (2, again(5_120, 2, Some("no route"), AgainReason::Retry)),
        (3, Verdict::Dead { reason: DeadReason::AttemptsSpent, error: Some(text("no route")) }),
        // A stray further attempt is the end too, never another try.
        (4, Verdict::Dead { reason: DeadReason::AttemptsSpent, error: Some(text("no route")) }),
    ] {
        let decision =
            judge(&AttemptFacts { attempt, ..facts(&message, &handler_options) }, failed());
        assert_eq!(decision.verdict, verdict, "attempt {attempt}");
        assert_eq!(decision.ending, Ending::Failed);
        assert_eq!(decision.note, Some(text("no route")));
    }
}

// spec: T-31
#[test]
fn a_recurring_job_is_not_retried_because_its_next_occurrence_is_its_retry() {
    let (message, handler_options) = (message(), EffectiveHandlerOptions::recurring());
    let decision = judge(&facts(&message, &handler_options), failed());
    assert!(matches!(decision.verdict, Verdict::Dead { reason: DeadReason::AttemptsSpent, .. }));
}

// spec: T-30, T-38, T-39, T-41
#[test]
fn a_one_time_job_of_fifteen_minutes_is_retried_at_a_tenth_and_two_tenths() {
    let message = message();
    let handler_options = EffectiveHandlerOptions {
        retry: Retry::proportional().retries_max(2),
        ..EffectiveHandlerOptions::deferred()
    };
    let at_attempt = |attempt| {
        judge(&AttemptFacts { attempt, ..facts(&message, &handler_options) }, failed()).verdict
    };
    assert_eq!(at_attempt(1), again(5_090, 1, Some("no route"), AgainReason::Retry));
    assert_eq!(at_attempt(2), again(5_180, 2, Some("no route"), AgainReason::Retry));
    assert!(matches!(at_attempt(3), Verdict::Dead { reason: DeadReason::AttemptsSpent, .. }));
}

// spec: D-26, D-27, D-28
#[test]
fn with_n_attempts_the_nth_failure_is_dead_exactly_once() {
    let message = message();
    for most in [0, 1, 2, 5] {
        let handler_options = EffectiveHandlerOptions {
            retry: Retry::intervals([secs(1)]).attempts(most),
            ..EffectiveHandlerOptions::default()
        };
        let mut attempt = 0;
        let mut calls = 0;
        loop {
            // As a claim does.
            attempt += 1;
            calls += 1;
            match judge(&AttemptFacts { attempt, ..facts(&message, &handler_options) }, failed())
                .verdict
            {
                Verdict::Again { attempt: spent, .. } => attempt = spent,
                Verdict::Dead { reason, .. } => {
                    break assert_eq!(reason, DeadReason::AttemptsSpent);
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(calls, most.max(1), "attempts {most}");
    }
}

#[test]
fn retry_after_spends_an_attempt_with_its_own_wait() {
    let (message, handler_options) = (message(), handler_options());
    let end = AttemptEnd::RetryAfter { wait: secs(7), note: Some(text("busy")) };
    let decision = judge(&facts(&message, &handler_options), end.clone());
    assert_eq!(decision.verdict, again(5_007, 1, Some("busy"), AgainReason::Retry));
    assert_eq!(decision.ending, Ending::Failed);
    let last = judge(&AttemptFacts { attempt: 3, ..facts(&message, &handler_options) }, end);
    assert!(matches!(last.verdict, Verdict::Dead { reason: DeadReason::AttemptsSpent, .. }));
    let silent = judge(
        &facts(&message, &handler_options),
        AttemptEnd::RetryAfter { wait: secs(7), note: None },
    );
    assert_eq!(silent.note, Some(text("the handler requested a retry")));
}

#[test]
fn a_snooze_gives_the_attempt_back_and_is_counted() {
    let message = message();
    let handler_options = EffectiveHandlerOptions { snoozes_max: 2, ..handler_options() };
    let snoozed = |attempt, snoozes| {
        judge(
            &AttemptFacts { attempt, snoozes, ..facts(&message, &handler_options) },
            AttemptEnd::Snooze { wait: secs(9) },
        )
    };
    for (attempt, snoozes) in [(1, 0), (3, 1)] {
        let decision = snoozed(attempt, snoozes);
        let verdict = Verdict::Again {
            due_at: at(5_009),
            attempt: attempt - 1,
            crashes: 0,
            snoozes: snoozes + 1,
            error: None,
            why: AgainReason::Snooze,
        };
        assert_eq!(decision, AttemptDecision { verdict, ending: Ending::Snoozed, note: None });
    }
    let third = snoozed(1, 2);
    assert_eq!(third.ending, Ending::Failed);
    assert!(matches!(
        third.verdict,
        Verdict::Again { attempt: 1, snoozes: 2, why: AgainReason::Retry, .. }
    ));
    assert!(matches!(
        snoozed(3, 2).verdict,
        Verdict::Dead { reason: DeadReason::AttemptsSpent, .. }
    ));
}

// spec: H-27, H-28
#[test]
fn a_timeout_is_a_failure_or_the_end_and_shutdown_is_neither() {
    let (message, handler_options) = (message(), handler_options());
    let end = AttemptEnd::TimedOut { timeout: secs(30) };
    let error = "took longer than the 30s allowed";
    let decision = judge(&facts(&message, &handler_options), end.clone());
    assert_eq!(decision.verdict, again(5_060, 1, Some(error), AgainReason::Retry));
    assert_eq!(decision.ending, Ending::TimedOut);
    let spent =
        judge(&AttemptFacts { attempt: 3, ..facts(&message, &handler_options) }, end.clone());
    assert!(matches!(spent.verdict, Verdict::Dead { reason: DeadReason::AttemptsSpent, .. }));

    let strict = EffectiveHandlerOptions { on_timeout: OnTimeout::Fail, ..handler_options.clone() };
    let decision = judge(&facts(&message, &strict), end);
    assert_eq!(
        decision.verdict,
        Verdict::Dead { reason: DeadReason::TimedOut, error: Some(text(error)) }
    );

    for attempt in 1..=4 {
        for end in [AttemptEnd::Interrupted, AttemptEnd::Released] {
            let decision =
                judge(&AttemptFacts { attempt, ..facts(&message, &handler_options) }, end);
            assert_eq!(decision.verdict, again(5_000, attempt - 1, None, AgainReason::Release));
            assert_eq!(decision.ending, Ending::Released);
            assert!(!decision.ending.is_failure());
        }
    }
}

#[test]
fn a_panic_is_retried_by_the_retry_policy() {
    let (message, handler_options) = (message(), handler_options());
    let decision =
        judge(&facts(&message, &handler_options), AttemptEnd::Panicked { error: text("index 3") });
    assert_eq!(decision.verdict, again(5_060, 1, Some("index 3"), AgainReason::Retry));
    assert_eq!(decision.ending, Ending::Panicked);
}

// spec: U-20, T-29
#[test]
fn a_message_without_a_handler_is_released_at_no_cost_until_its_budget_is_spent() {
    let (message, handler_options) = (message(), handler_options());
    // For how long it was put off already, and after how many seconds it is due again.
    for (waited, wait) in [(0, 1), (1, 1), (10, 10), (59, 59), (1_000, 60), (86_399, 60)] {
        let error = format!(
            "no handler here has the topic \"mail\"; put off for {} s in all",
            waited + wait
        );
        for attempt in 1..=4 {
            let facts = AttemptFacts {
                attempt,
                crashes: 2,
                snoozes: 3,
                ..facts(&message, &handler_options)
            };
            let decision = judge(&facts, AttemptEnd::NoHandler { waited: secs(waited) });
            let expected = Verdict::Again {
                due_at: at(5_000 + i64::try_from(wait).unwrap()),
                attempt: attempt - 1,
                crashes: 2,
                snoozes: 3,
                error: Some(text(&error)),
                why: AgainReason::NoHandler,
            };
            assert_eq!(decision.verdict, expected, "put off for {waited} s, attempt {attempt}");
            assert_eq!(decision.verdict.change(), StateChange::Release);
            assert!(!decision.ending.is_failure());
        }
    }
    let decision =
        judge(&facts(&message, &handler_options), AttemptEnd::NoHandler { waited: secs(86_400) });
    let error = "no handler anywhere: in 24 hours no process had one for the topic \"mail\"";
    let dead = Verdict::Dead { reason: DeadReason::NoHandler, error: Some(text(error)) };
    assert_eq!((decision.verdict, decision.ending), (dead, Ending::NoHandler));
}

#[test]
fn poison_and_discard_are_dead_at_once_and_cancel_is_not_a_failure() {
    let (message, handler_options) = (message(), handler_options());
    let decision =
        judge(&facts(&message, &handler_options), AttemptEnd::Poison { error: text("not JSON") });
    assert_eq!(
        decision.verdict,
        Verdict::Dead { reason: DeadReason::Poison, error: Some(text("not JSON")) }
    );
    assert_eq!(decision.ending, Ending::Poison);
    let decision =
        judge(&facts(&message, &handler_options), AttemptEnd::Discard { reason: text("too old") });
    assert_eq!(
        decision.verdict,
        Verdict::Dead { reason: DeadReason::Discarded, error: Some(text("too old")) }
    );
    assert_eq!(decision.ending, Ending::Discarded);
    for end in [AttemptEnd::Cancel, AttemptEnd::CancelledByOperator] {
        let decision = judge(&facts(&message, &handler_options), end);
        assert_eq!(
            decision,
            AttemptDecision { verdict: Verdict::Cancelled, ending: Ending::Cancelled, note: None }
        );
    }
}

#[test]
fn an_operators_cancel_ends_what_would_be_retried_and_leaves_what_is_final() {
    let (message, handler_options) = (message(), handler_options());
    for attempt in [1, 3] {
        let facts =
            AttemptFacts { cancel_requested: true, attempt, ..facts(&message, &handler_options) };
        for end in [
            failed(),
            AttemptEnd::RetryAfter { wait: secs(1), note: None },
            AttemptEnd::Snooze { wait: secs(1) },
            AttemptEnd::TimedOut { timeout: secs(1) },
            AttemptEnd::Panicked { error: text("boom") },
            AttemptEnd::NoHandler { waited: secs(0) },
            AttemptEnd::Interrupted,
            AttemptEnd::Released,
            AttemptEnd::CancelledByOperator,
        ] {
            let decision = judge(&facts, end.clone());
            assert_eq!(decision.verdict, Verdict::Cancelled, "{end:?}");
            assert_eq!(decision.ending, Ending::Cancelled, "{end:?}");
        }
        assert_eq!(judge(&facts, failed()).note, Some(text("no route")));
        assert_eq!(judge(&facts, AttemptEnd::Done).verdict, Verdict::Done);
        let poison = judge(&facts, AttemptEnd::Poison { error: text("not JSON") });
        assert!(matches!(poison.verdict, Verdict::Dead { reason: DeadReason::Poison, .. }));
        let discarded = judge(&facts, AttemptEnd::Discard { reason: text("too old") });
        assert!(matches!(discarded.verdict, Verdict::Dead { reason: DeadReason::Discarded, .. }));
    }
}

#[test]
fn a_long_error_is_cut_between_characters() {
    let long: Arc<str> = Arc::from("ü".repeat(5_000));
    let kept = bounded(&long);
    assert!(kept.len() <= NOTE_LEN_MAX && kept.len() > NOTE_LEN_MAX - 4);
    assert!(kept.ends_with("ü…"));
    let fits: Arc<str> = Arc::from("x".repeat(NOTE_LEN_MAX));
    assert!(Arc::ptr_eq(&bounded(&fits), &fits));
    let (message, handler_options) = (message(), handler_options());
    let decision = judge(&facts(&message, &handler_options), AttemptEnd::Failed { error: long });
    assert_eq!(decision.note, Some(kept));
}

#[test]
fn a_due_time_past_the_end_of_time_is_the_end_of_time() {
    let (message, handler_options) = (message(), handler_options());
    let end = AttemptEnd::RetryAfter { wait: Duration::MAX, note: None };
    let decision = judge(&facts(&message, &handler_options), end);
    let end = Timestamp::MAX;
    assert!(matches!(decision.verdict, Verdict::Again { due_at, .. } if due_at == end));
}

fn any_end() -> impl Strategy<Value = AttemptEnd> {
    let error = || ".{0,40}".prop_map(Arc::<str>::from);
    prop_oneof![
        Just(AttemptEnd::Done),
        (any::<Duration>(), prop::option::of(error()))
            .prop_map(|(wait, note)| AttemptEnd::RetryAfter { wait, note }),
        any::<Duration>().prop_map(|wait| AttemptEnd::Snooze { wait }),
        error().prop_map(|reason| AttemptEnd::Discard { reason }),
        Just(AttemptEnd::Cancel),
        error().prop_map(|error| AttemptEnd::Failed { error }),
        any::<Duration>().prop_map(|timeout| AttemptEnd::TimedOut { timeout }),
        error().prop_map(|error| AttemptEnd::Panicked { error }),
        (0_u64..90_000).prop_map(|waited| AttemptEnd::NoHandler { waited: secs(waited) }),
        error().prop_map(|error| AttemptEnd::Poison { error }),
        Just(AttemptEnd::Interrupted),
        Just(AttemptEnd::Released),
        Just(AttemptEnd::CancelledByOperator),
    ]
}

proptest! {
    // spec: T-67
    #[test]
    fn every_verdict_is_a_legal_change_that_keeps_the_counts(
        end in any_end(),
        attempt in 1_u32..8,
        crashes in 0_u32..8,
        snoozes in 0_u32..8,
        attempts_max in prop::option::of(0_u32..6),
        cancel_requested in any::<bool>(),
        when_interrupted in prop_oneof![Just(WhenInterrupted::Again), Just(WhenInterrupted::Lost)],
    ) {
        let message = message();
        let retry = Retry { attempts_max, ..Retry::default() };
        let handler_options = EffectiveHandlerOptions { retry, snoozes_max: 3, when_interrupted, ..EffectiveHandlerOptions::default() };
        let now = at(5_000);
        let facts = AttemptFacts { message: &message, attempt, crashes, snoozes, handler_options: &handler_options, cancel_requested, now };
        for decision in [judge(&facts, end.clone()), crate::policy::rescue(&facts)] {
            prop_assert!(MessageState::Running.after(decision.verdict.change()).is_some());
            let Verdict::Again { due_at, attempt: spent, snoozes: slept, .. } = decision.verdict else { continue };
            prop_assert!(!cancel_requested);
            prop_assert!(due_at >= now);
            prop_assert!(spent == attempt || spent == attempt - 1);
            prop_assert!(slept == snoozes || slept == snoozes + 1);
            // Another claim never exceeds what is allowed.
            prop_assert!(spent < attempts_max.unwrap_or(u32::MAX).max(attempt));
        }
    }
}
