//! Tests of the circuit, step by step and with random steps.

use super::*;
use proptest::prelude::*;

const BREAKER: Breaker =
    Breaker { failures_max: 3, wait: Duration::from_secs(10), wait_max: Duration::from_secs(35) };

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn after(circuit: Circuit, signals: &[BreakerSignal], now: Timestamp) -> Circuit {
    signals.iter().fold(circuit, |circuit, signal| BREAKER.attempt_ended(circuit, *signal, now))
}

#[test]
fn only_failures_in_a_row_open_it() {
    use BreakerSignal::{Bad, Good, None};
    let closed = Circuit::default();
    assert_eq!(after(closed, &[Bad, Bad, Good, Bad, Bad], at(0)).as_str(), "closed");
    let open = Circuit::Open { until: at(10), openings: 1 };
    assert_eq!(
        after(closed, &[Bad, None, Bad, Bad], at(0)),
        open,
        "no signal does not end the series"
    );
    assert_eq!(after(open, &[Good, Bad, Good], at(5)), open, "earlier attempts change nothing");
}

#[test]
fn a_probe_is_admitted_after_the_wait() {
    let open = Circuit::Open { until: at(10), openings: 1 };
    assert_eq!(BREAKER.admits(open, at(9)), (open, BreakerDecision::NotBefore(at(10))));
    let (half, admits) = BREAKER.admits(open, at(10));
    assert_eq!((half.as_str(), admits), ("half open", BreakerDecision::One));
    let probing = BREAKER.attempt_started(half, at(10));
    assert_eq!(BREAKER.admits(probing, at(11)), (probing, BreakerDecision::NotBefore(at(20))));
    assert_eq!(BREAKER.attempt_ended(probing, BreakerSignal::Good, at(12)), Circuit::default());
    let mut circuit = BREAKER.attempt_ended(probing, BreakerSignal::Bad, at(12));
    let mut now = at(12);
    for wait in [20, 35, 35] {
        let until = add(now, Duration::from_secs(wait));
        assert!(matches!(circuit, Circuit::Open { until: open, .. } if open == until), "{wait}");
        now = until;
        let half = BREAKER.attempt_started(BREAKER.admits(circuit, now).0, now);
        circuit = BREAKER.attempt_ended(half, BreakerSignal::Bad, now);
    }
}

// Headless: half-open circuits that never closed again.
#[test]
fn a_probe_without_a_result_is_followed_by_another() {
    let half = Circuit::HalfOpen { probing_until: None, openings: 1 };
    let probing = BREAKER.attempt_started(half, at(0));
    assert_eq!(BREAKER.admits(probing, at(10)).1, BreakerDecision::One);
    let without_signal = BREAKER.attempt_ended(probing, BreakerSignal::None, at(1));
    assert_eq!(BREAKER.admits(without_signal, at(1)).1, BreakerDecision::One, "at once");
}

proptest! {
    // Whatever happens, a message is let through within the longest wait.
    #[test]
    fn no_circuit_stays_open_for_ever(steps in prop::collection::vec((0..5_u8, 0..60_i64), 1..60)) {
        let (mut circuit, mut now) = (Circuit::default(), 0);
        for (step, later) in steps {
            now += later;
            circuit = match step {
                0 => BREAKER.attempt_ended(circuit, BreakerSignal::Good, at(now)),
                1 | 2 => BREAKER.attempt_ended(circuit, BreakerSignal::Bad, at(now)),
                3 => BREAKER.attempt_ended(circuit, BreakerSignal::None, at(now)),
                _ => {
                    let (circuit, admits) = BREAKER.admits(circuit, at(now));
                    let begins = !matches!(admits, BreakerDecision::NotBefore(_));
                    if begins { BREAKER.attempt_started(circuit, at(now)) } else { circuit }
                }
            };
            let (_, admits) = BREAKER.admits(circuit, at(now + 35));
            prop_assert!(!matches!(admits, BreakerDecision::NotBefore(_)), "{circuit:?}");
        }
    }
}
