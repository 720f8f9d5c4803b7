//! Settle, as the contract says it; and whether what was decided follows from what happened.

use punctual::jiff::Timestamp;
use punctual::model::{DeadReason, Ending, MessageRecord, Rescue, State};
use punctual::policy::{EffectiveTerms, Verdict, Why};
use punctual::storage::{Settled, Settlement};

use super::{Ledger, Said};

impl Ledger {
    pub(crate) fn settled(
        &mut self,
        settlements: &[Settlement],
        now: Timestamp,
        answers: &[Settled],
    ) {
        for (settlement, answer) in settlements.iter().zip(answers) {
            let expected = self.settle(settlement, now);
            self.must(*answer == expected, "only the current token settles", || {
                format!("{:?} was answered {answer:?}, expected {expected:?}", settlement.lease)
            });
        }
    }

    fn settle(&mut self, settlement: &Settlement, now: Timestamp) -> Settled {
        if !self.is_current(settlement.lease) {
            self.tally.stale_settlements += 1;
            let calm = self.calm;
            self.must(!calm, "without faults no lease is lost", || format!("{settlement:?}"));
            return Settled::Lost;
        }
        let mut record = self.messages[&settlement.lease.message].clone();
        if record.cancel_requested && matches!(settlement.verdict, Verdict::Again { .. }) {
            return Settled::CancelRequested;
        }
        self.judge(&record, settlement);
        record.lease = None;
        record.cancel_requested = false;
        match &settlement.verdict {
            Verdict::Again { due_at, attempt, crashes, snoozes, .. } => {
                record.state = State::Pending;
                (record.due_at, record.attempt) = (*due_at, *attempt);
                (record.crashes, record.snoozes) = (*crashes, *snoozes);
            }
            ended => {
                record.state = match ended {
                    Verdict::Done => State::Done,
                    Verdict::Dead { .. } => State::Dead,
                    _ => State::Cancelled,
                };
                record.ended_at = Some(now);
                if *ended == Verdict::Done && settlement.execution.is_some() {
                    *self.done.entry(record.message.id).or_default() += 1;
                }
                self.release_key(&record.message);
            }
        }
        self.messages.insert(record.message.id, record);
        Settled::Applied
    }

    /// Whether a verdict that was stored follows from what happened.
    fn judge(&mut self, record: &MessageRecord, settlement: &Settlement) {
        let rescued = self.reclaimed_tokens.contains(&settlement.lease.token);
        let terms = self.terms_of(&record.message);
        let relayed = record.message.queue.is_relay();
        let most = terms.retry.attempts_max;
        let exhausted = most.is_some_and(|most| record.attempt >= most);
        let crash_loop =
            rescued && record.crashes >= terms.crashes_max && terms.rescue == Rescue::AtOnce;
        let fits = match &settlement.verdict {
            Verdict::Again { why, .. } => {
                let left = relayed || !exhausted;
                rescued == (*why == Why::Rescue)
                    && again(record, &terms, left).contains(&counts(&settlement.verdict))
            }
            Verdict::Dead { reason, .. } => match reason {
                DeadReason::AttemptsSpent => exhausted,
                DeadReason::CrashLoop => exhausted && crash_loop,
                _ => true,
            },
            Verdict::Done => relayed || self.was_said(settlement, Said::Done),
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

/// Why it is due again, and the attempts, crashes and snoozes counted from then on.
type Counts = (Why, u32, u32, u32);

fn counts(verdict: &Verdict) -> Option<Counts> {
    match verdict {
        Verdict::Again { attempt, crashes, snoozes, why, .. } => {
            Some((*why, *attempt, *crashes, *snoozes))
        }
        _ => None,
    }
}

/// Every way in which a message may be due again.
fn again(
    record: &MessageRecord,
    terms: &EffectiveTerms,
    attempts_left: bool,
) -> [Option<Counts>; 4] {
    let (spent, given_back) = (record.attempt, record.attempt.saturating_sub(1));
    let (crashes, snoozes) = (record.crashes, record.snoozes);
    let forgiven =
        terms.rescue == Rescue::AtOnce && (terms.crashes_max == 0 || crashes < terms.crashes_max);
    let after_crash = if forgiven { given_back } else { spent };
    [
        attempts_left.then_some((Why::Retry, spent, crashes, snoozes)),
        (snoozes < terms.snoozes_max).then_some((Why::Snooze, given_back, crashes, snoozes + 1)),
        Some((Why::Release, given_back, crashes, snoozes)),
        (forgiven || attempts_left).then_some((Why::Rescue, after_crash, crashes + 1, snoozes)),
    ]
}
