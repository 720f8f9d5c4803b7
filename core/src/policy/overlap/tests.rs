//! Tests of each overlap policy with each number of alive runs.

use jiff::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::model::MisfireFacts;

fn planned(second: i64, policy: Option<MisfirePolicy>) -> PlannedOccurrence {
    let nominal = Timestamp::from_second(second).unwrap();
    let misfire = policy.map(|policy| MisfireFacts {
        policy,
        misfired_from: nominal,
        missed_count: 1,
        missed_more: false,
        detected_at: nominal,
        delay_ms: 0,
        index: 0,
    });
    PlannedOccurrence { nominal, misfire }
}

/// Candidates at 1, 2, 3, ...
fn candidates(count: i64) -> Vec<PlannedOccurrence> {
    (1..=count).map(|second| planned(second, None)).collect()
}

fn seconds(planned: &[PlannedOccurrence]) -> Vec<i64> {
    planned.iter().map(|planned| planned.nominal.as_second()).collect()
}

const ALLOW: Overlap = Overlap::Allow { parallel_max: None };
const ALLOW_3: Overlap = Overlap::Allow { parallel_max: Some(3) };

// spec: U-42, U-52
#[test]
fn each_policy_admits_what_it_says() {
    for (overlap, alive, count, fired, alive_max) in [
        (Overlap::Skip, 0, 1, vec![1], Some(0)),
        (Overlap::Skip, 0, 3, vec![1, 2, 3], Some(0)),
        (Overlap::Skip, 1, 1, vec![], None),
        (Overlap::Skip, 9, 3, vec![], None),
        (Overlap::QueueOne, 0, 1, vec![1], Some(1)),
        (Overlap::QueueOne, 0, 3, vec![1, 2, 3], Some(1)),
        (Overlap::QueueOne, 1, 3, vec![1, 2, 3], Some(1)),
        (Overlap::QueueOne, 2, 3, vec![], None),
        (ALLOW, 9, 3, vec![1, 2, 3], None),
        (ALLOW_3, 0, 2, vec![1, 2], Some(2)),
        (ALLOW_3, 1, 3, vec![1, 2, 3], Some(2)),
        (ALLOW_3, 3, 1, vec![], None),
        (Overlap::CancelRunning, 0, 1, vec![1], None),
        (Overlap::CancelRunning, 2, 3, vec![1, 2, 3], None),
        (Overlap::Skip, 0, 0, vec![], None),
    ] {
        let admission = admit(overlap, alive, candidates(count));
        assert_eq!(seconds(&admission.fire), fired, "{overlap} {alive} {count}");
        let skipped: Vec<i64> = (1..=count).filter(|second| !fired.contains(second)).collect();
        assert_eq!(seconds(&admission.skipped), skipped, "{overlap} {alive} {count}");
        assert_eq!(admission.alive_max, alive_max, "{overlap} {alive} {count}");
        assert_eq!(admission.cancel_alive, overlap == Overlap::CancelRunning, "{overlap}");
    }
    assert!(!admit(Overlap::CancelRunning, 1, Vec::new()).cancel_alive);
}

// spec: M-16
#[test]
fn every_run_that_fire_all_promised_is_admitted() {
    let all = Some(MisfirePolicy::FireAll);
    let mixed = || vec![planned(1, all), planned(2, all), planned(3, None), planned(4, None)];
    for (overlap, alive, fired, alive_max) in [
        (Overlap::Skip, 1, vec![1, 2], None),
        (Overlap::Skip, 0, vec![1, 2, 3, 4], Some(0)),
        (Overlap::QueueOne, 0, vec![1, 2, 3, 4], Some(1)),
        (Overlap::QueueOne, 2, vec![1, 2], None),
        (ALLOW_3, 0, vec![1, 2, 3, 4], Some(2)),
        (ALLOW, 5, vec![1, 2, 3, 4], None),
        (Overlap::CancelRunning, 1, vec![1, 2, 3, 4], None),
    ] {
        let admission = admit(overlap, alive, mixed());
        assert_eq!(seconds(&admission.fire), fired, "{overlap} {alive}");
        assert_eq!(admission.alive_max, alive_max, "{overlap} {alive}");
    }
    assert_eq!(admit(Overlap::Skip, 0, vec![planned(1, all)]).alive_max, None);
    // The other policies promise one run at once, not one beside what was alive before.
    for policy in [MisfirePolicy::FireNow, MisfirePolicy::FireOnce] {
        let admission = admit(Overlap::Skip, 1, vec![planned(1, Some(policy))]);
        assert_eq!((admission.fire.len(), admission.skipped.len()), (0, 1), "{policy}");
    }
}

// spec: M-11, M-12
#[test]
fn an_occurrence_on_time_is_skipped_only_because_of_runs_alive_before() {
    for policy in MisfirePolicy::ALL {
        let both = || vec![planned(1, Some(policy)), planned(2, None)];
        for overlap in [Overlap::Skip, Overlap::QueueOne, ALLOW, ALLOW_3, Overlap::CancelRunning] {
            let free = admit(overlap, 0, both());
            assert_eq!(seconds(&free.fire), [1, 2], "{policy} {overlap}");
        }
        let busy = admit(Overlap::Skip, 1, both());
        assert_eq!(seconds(&busy.skipped).last(), Some(&2), "{policy}");
    }
}

#[test]
fn several_runs_start_together_only_where_fire_all_and_allow_say_so() {
    for (overlap, policy, most) in [
        (ALLOW, MisfirePolicy::FireAll, None),
        (ALLOW_3, MisfirePolicy::FireAll, Some(3)),
        (ALLOW, MisfirePolicy::FireNow, Some(1)),
        (ALLOW_3, MisfirePolicy::SkipToNext, Some(1)),
        (Overlap::Skip, MisfirePolicy::FireAll, Some(1)),
    ] {
        assert_eq!(at_once_max(overlap, policy), most, "{overlap} {policy}");
    }
}

#[test]
fn every_spelling_is_read_and_one_is_printed() {
    assert_eq!(Overlap::default(), Overlap::Skip);
    for (text, overlap, printed) in [
        ("skip", Overlap::Skip, "skip"),
        ("SkipIfRunning", Overlap::Skip, "skip"),
        ("QueueOne", Overlap::QueueOne, "queue_one"),
        ("queue-one", Overlap::QueueOne, "queue_one"),
        ("Allow", ALLOW, "allow"),
        ("allow(3)", ALLOW_3, "allow(3)"),
        ("allow (3)", ALLOW_3, "allow(3)"),
        ("cancel running", Overlap::CancelRunning, "cancel_running"),
    ] {
        assert_eq!(text.parse::<Overlap>().unwrap(), overlap, "{text}");
        assert_eq!(overlap.to_string(), printed);
        let json = serde_json::to_string(&overlap).unwrap();
        assert_eq!(json, format!("{printed:?}"));
        assert_eq!(serde_json::from_str::<Overlap>(&json).unwrap(), overlap);
    }
    for (text, part) in [
        ("allow(0)", "at least 1"),
        ("allow(-1)", "no overlap policy"),
        ("allow(", "no overlap policy"),
        ("skip(1)", "no overlap policy"),
        ("allow(4294967296)", "no overlap policy"),
        ("sometimes", "use skip, queue_one, allow"),
        ("", "no overlap policy"),
    ] {
        let error = text.parse::<Overlap>().unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}

proptest! {
    #[test]
    fn admitted_runs_are_ordered_and_within_the_limit(
        overlap in prop_oneof![
            Just(Overlap::Skip), Just(Overlap::QueueOne), Just(Overlap::CancelRunning), Just(ALLOW),
            (1_u32..6).prop_map(|most| Overlap::Allow { parallel_max: Some(most) }),
        ],
        alive in 0_u32..6,
        promised in 0_i64..4,
        others in 0_i64..6,
    ) {
        let mut given: Vec<PlannedOccurrence> =
            (1..=promised).map(|second| planned(second, Some(MisfirePolicy::FireAll))).collect();
        given.extend((1..=others).map(|second| planned(100 + second, None)));
        let admission = admit(overlap, alive, given.clone());
        let mut all = [admission.fire.clone(), admission.skipped.clone()].concat();
        all.sort_by_key(|planned| planned.nominal);
        prop_assert_eq!(all, given);
        prop_assert!(admission.fire.is_sorted_by_key(|planned| planned.nominal));
        if let Some(alive_max) = admission.alive_max {
            prop_assert!(alive <= alive_max);
            // One more alive would have admitted less.
            let later = admit(overlap, alive_max + 1, [admission.fire.clone(), admission.skipped].concat());
            prop_assert!(later.fire.len() < admission.fire.len());
        }
    }
}
