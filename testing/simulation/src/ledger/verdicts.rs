//! Settle by the rules of the contract, and checks that each verdict follows from its attempt.

use punctual::backend::policy::{AgainReason, EffectiveHandlerOptions, Verdict};
use punctual::backend::storage::{SettleResult, Settlement};
use punctual::jiff::Timestamp;
use punctual::model::{DeadReason, Ending, MessageRecord, MessageState, Rescue, WhenInterrupted};

use super::{Ledger, RunResult};

impl Ledger {
    pub(crate) fn settled(
        &mut self,
        settlements: &[Settlement],
        now: Timestamp,
        answers: &[SettleResult],
    ) {
        for (settlement, answer) in settlements.iter().zip(answers) {
            let expected = self.settle(settlement, now);
            self.must(*answer == expected, "only the current token settles", || {
                format!("{:?} returned {answer:?}, expected {expected:?}", settlement.lease)
            });
        }
    }

    fn settle(&mut self, settlement: &Settlement, now: Timestamp) -> SettleResult {
        if !self.is_current(settlement.lease) {
            self.tally.stale_settlements += 1;
            let fault_free = self.fault_free;
            self.must(!fault_free, "without faults no lease is lost", || format!("{settlement:?}"));
            return SettleResult::Lost;
        }
        let mut record = self.messages[&settlement.lease.message].clone();
        if record.cancel_requested && matches!(settlement.verdict, Verdict::Again { .. }) {
            return SettleResult::CancelRequested;
        }
        self.check_verdict(&record, settlement);
        record.lease = None;
        record.cancel_requested = false;
        match &settlement.verdict {
            Verdict::Again { due_at, attempt, crashes, snoozes, .. } => {
                record.state = MessageState::Pending;
                (record.due_at, record.attempt) = (*due_at, *attempt);
                (record.crashes, record.snoozes) = (*crashes, *snoozes);
            }
            ended => {
                record.state = match ended {
                    Verdict::Done => MessageState::Done,
                    Verdict::Dead { .. } => MessageState::Dead,
                    _ => MessageState::Cancelled,
                };
                record.ended_at = Some(now);
                if *ended == Verdict::Done && settlement.execution.is_some() {
                    *self.done.entry(record.message.id).or_default() += 1;
                }
                self.release_key(&record.message);
            }
        }
        self.messages.insert(record.message.id, record);
        SettleResult::Applied
    }

    /// Checks that a stored verdict follows from its attempt.
    fn check_verdict(&mut self, record: &MessageRecord, settlement: &Settlement) {
        let rescued = self.reclaimed_tokens.contains(&settlement.lease.token);
        let handler_options = self.options_of(&record.message);
        let relayed = record.message.queue.is_relay();
        let most = handler_options.retry.attempts_max;
        let exhausted = most.is_some_and(|most| record.attempt >= most);
        let crash_loop = rescued
            && record.crashes >= handler_options.crashes_max
            && handler_options.rescue == Rescue::AtOnce;
        let not_again = !relayed && handler_options.when_interrupted == WhenInterrupted::Lost;
        let fits = match &settlement.verdict {
            Verdict::Again { why, .. } => {
                let left = relayed || !exhausted;
                let cut_off = *why == AgainReason::Rescue
                    || *why == AgainReason::Release && self.began(settlement);
                !(not_again && cut_off)
                    && rescued == (*why == AgainReason::Rescue)
                    && permitted_repeats(record, &handler_options, left)
                        .contains(&counts(&settlement.verdict))
            }
            Verdict::Dead { reason, .. } => match reason {
                DeadReason::AttemptsSpent => exhausted,
                DeadReason::CrashLoop => exhausted && crash_loop,
                DeadReason::Interrupted => not_again,
                _ => true,
            },
            Verdict::Done => relayed || self.had_result(settlement, RunResult::Done),
            Verdict::Cancelled => true,
        };
        self.must(fits, "a verdict follows from its attempt", || {
            let MessageRecord {
                attempt,
                crashes,
                snoozes,
                ..
            } = record;
            format!(
                "attempt {attempt} of {most:?}, {crashes} crashes, {snoozes} snoozes, rescued {rescued}: {settlement:?}"
            )
        });
        if rescued {
            self.tally.rescues += 1;
            let execution = settlement.execution.as_ref();
            let lost = execution.is_none_or(|execution| execution.ending == Ending::Lost);
            self.must(lost, "a rescued attempt is recorded as lost", || format!("{settlement:?}"));
        }
    }
}

/// Reason why a message is due again, with its new attempts, crashes and snoozes.
type Counts = (AgainReason, u32, u32, u32);

fn counts(verdict: &Verdict) -> Option<Counts> {
    match verdict {
        Verdict::Again { attempt, crashes, snoozes, why, .. } => {
            Some((*why, *attempt, *crashes, *snoozes))
        }
        _ => None,
    }
}

/// Returns all permitted ways in which a message may be due again.
fn permitted_repeats(
    record: &MessageRecord,
    handler_options: &EffectiveHandlerOptions,
    attempts_left: bool,
) -> [Option<Counts>; 4] {
    let (spent, given_back) = (record.attempt, record.attempt.saturating_sub(1));
    let (crashes, snoozes) = (record.crashes, record.snoozes);
    let forgiven = handler_options.rescue == Rescue::AtOnce
        && (handler_options.crashes_max == 0 || crashes < handler_options.crashes_max);
    let after_crash = if forgiven { given_back } else { spent };
    [
        attempts_left.then_some((AgainReason::Retry, spent, crashes, snoozes)),
        (snoozes < handler_options.snoozes_max).then_some((
            AgainReason::Snooze,
            given_back,
            crashes,
            snoozes + 1,
        )),
        Some((AgainReason::Release, given_back, crashes, snoozes)),
        (forgiven || attempts_left).then_some((
            AgainReason::Rescue,
            after_crash,
            crashes + 1,
            snoozes,
        )),
    ]
}
