//! The circuit, step by step, and by chance.

use super::*;
use proptest::prelude::*;

const BREAKER: Breaker =
    Breaker { failures_max: 3, wait: Duration::from_secs(10), wait_max: Duration::from_secs(35) };

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn after(circuit: Circuit, signs: &[BreakerSignal], now: Timestamp) -> Circuit {
    signs.iter().fold(circuit, |circuit, sign| BREAKER.ended(circuit, *sign, now))
}

#[test]
fn only_failures_in_a_row_open_it() {
    use BreakerSignal::{Bad, Good, None};
    let closed = Circuit::default();
    assert_eq!(after(closed, &[Bad, Bad, Good, Bad, Bad], at(0)).as_str(), "closed");
    let open = Circuit::Open { until: at(10), openings: 1 };
    assert_eq!(after(closed, &[Bad, None, Bad, Bad], at(0)), open, "what says nothing is no break");
    assert_eq!(after(open, &[Good, Bad, Good], at(5)), open, "latecomers change nothing");
}

#[test]
fn it_lets_one_through_after_the_wait_and_longer_waits_follow() {
    let open = Circuit::Open { until: at(10), openings: 1 };
    assert_eq!(BREAKER.admits(open, at(9)), (open, BreakerDecision::NotBefore(at(10))));
    let (half, admits) = BREAKER.admits(open, at(10));
    assert_eq!((half.as_str(), admits), ("half open", BreakerDecision::One));
    let probing = BREAKER.begun(half, at(10));
    assert_eq!(BREAKER.admits(probing, at(11)), (probing, BreakerDecision::NotBefore(at(20))));
    assert_eq!(BREAKER.ended(probing, BreakerSignal::Good, at(12)), Circuit::default());
    let mut circuit = BREAKER.ended(probing, BreakerSignal::Bad, at(12));
    let mut now = at(12);
    for wait in [20, 35, 35] {
        let until = add(now, Duration::from_secs(wait));
        assert!(matches!(circuit, Circuit::Open { until: open, .. } if open == until), "{wait}");
        now = until;
        let half = BREAKER.begun(BREAKER.admits(circuit, now).0, now);
        circuit = BREAKER.ended(half, BreakerSignal::Bad, now);
    }
}

// Headless: half-open circuits that were stuck for ever.
#[test]
fn a_probe_without_an_answer_is_followed_by_another() {
    let half = Circuit::HalfOpen { probing_until: None, openings: 1 };
    let probing = BREAKER.begun(half, at(0));
    assert_eq!(BREAKER.admits(probing, at(10)).1, BreakerDecision::One);
    let nothing_said = BREAKER.ended(probing, BreakerSignal::None, at(1));
    assert_eq!(BREAKER.admits(nothing_said, at(1)).1, BreakerDecision::One, "at once");
}

proptest! {
    // Whatever happens, within the longest wait something is let through.
    #[test]
    fn no_circuit_is_ever_stuck(steps in prop::collection::vec((0..5_u8, 0..60_i64), 1..60)) {
        let (mut circuit, mut now) = (Circuit::default(), 0);
        for (step, later) in steps {
            now += later;
            circuit = match step {
                0 => BREAKER.ended(circuit, BreakerSignal::Good, at(now)),
                1 | 2 => BREAKER.ended(circuit, BreakerSignal::Bad, at(now)),
                3 => BREAKER.ended(circuit, BreakerSignal::None, at(now)),
                _ => {
                    let (circuit, admits) = BREAKER.admits(circuit, at(now));
                    let begins = !matches!(admits, BreakerDecision::NotBefore(_));
                    if begins { BREAKER.begun(circuit, at(now)) } else { circuit }
                }
            };
            let (_, admits) = BREAKER.admits(circuit, at(now + 35));
            prop_assert!(!matches!(admits, BreakerDecision::NotBefore(_)), "{circuit:?}");
        }
    }
}
