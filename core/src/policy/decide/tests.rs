//! Tests of the decision about a due job, with each rule alone and with all of them together.

use proptest::prelude::*;

use super::*;
use crate::model::{Job, Misfire, Origin, Overlap, Overrides, THRESHOLD_DEFAULT};
use crate::schedule::Schedule;

/// Returns an instant of the day, in minutes.
fn minute(minute: i64) -> Timestamp {
    Timestamp::from_second(minute * 60).unwrap()
}

/// Returns a job that runs every ten minutes, from minute 10 on.
fn record(misfire: Misfire, overlap: Overlap) -> JobRecord {
    let schedule = Schedule::cron_utc("*/10 * * * *").unwrap();
    let job = Job { misfire, overlap, ..Job::new("report", schedule).unwrap() };
    JobRecord {
        declared: job.clone(),
        configured: None,
        overrides: Overrides::default(),
        job,
        origin: Origin::Declared,
        app: "shop".to_owned(),
        release: 0,
        cursor: Some(minute(10)),
        last_nominal: None,
        runs: 0,
        paused: None,
        retired: None,
        created_at: minute(0),
        updated_at: minute(0),
        version: 1,
    }
}

fn decided(record: &JobRecord, alive: u32, now: i64) -> JobDecision {
    decide(record, minute(10), alive, THRESHOLD_DEFAULT, minute(now))
}

fn runs(decision: &JobDecision) -> Vec<i64> {
    decision.plan.fire.iter().map(|run| run.nominal.as_second() / 60).collect()
}

fn skips(decision: &JobDecision) -> Vec<(i64, SkipReason)> {
    let skip = |skip: &Skip| (skip.nominal.as_second() / 60, skip.reason);
    decision.plan.skipped.iter().map(skip).collect()
}

#[test]
fn an_operator_skips_a_run_that_stands_for_itself_alone() {
    let mut all = record(Misfire::fire_all(), Overlap::Skip);
    all.overrides.skips.insert(minute(20));
    let decision = decided(&all, 0, 45);
    assert_eq!(runs(&decision), [10, 30, 40]);
    assert_eq!(skips(&decision), [(20, SkipReason::Operator)]);

    let mut once = record(Misfire::fire_once(), Overlap::Skip);
    once.overrides.skips.insert(minute(30));
    let decision = decided(&once, 0, 45);
    assert_eq!((runs(&decision), skips(&decision)), (vec![30, 40], vec![]), "it stands for three");
    once.overrides.skips = [minute(10)].into();
    let decision = decided(&once, 0, 10);
    assert_eq!((runs(&decision), skips(&decision)), (vec![], vec![(10, SkipReason::Operator)]));
}

#[test]
fn an_overlap_skips_what_the_operator_left() {
    let mut record = record(Misfire::default(), Overlap::Skip);
    let decision = decided(&record, 1, 10);
    assert_eq!((runs(&decision), skips(&decision)), (vec![], vec![(10, SkipReason::Overlap)]));
    record.overrides.skips.insert(minute(10));
    let decision = decided(&record, 1, 10);
    assert_eq!(skips(&decision), [(10, SkipReason::Operator)]);
    record.job.overlap = Overlap::CancelRunning;
    assert!(!decided(&record, 1, 10).cancel_alive, "nothing runs in its place");
}

#[test]
fn the_last_run_that_is_left_ends_the_schedule() {
    let mut record = record(Misfire::fire_all(), Overlap::Skip);
    record.job.schedule = record.job.schedule.at_most(3);
    for (done, ran, cursor) in
        [(0, vec![10, 20, 30], None), (1, vec![10, 20], None), (3, vec![], None)]
    {
        record.runs = done;
        let decision = decided(&record, 0, 45);
        assert_eq!((runs(&decision), decision.plan.cursor), (ran, cursor), "{done} done");
    }
    record.runs = 0;
    let decision = decided(&record, 0, 25);
    assert_eq!((runs(&decision), decision.plan.cursor), (vec![10, 20], Some(minute(30))));
}

fn any_overlap() -> impl Strategy<Value = Overlap> {
    prop_oneof![
        Just(Overlap::Skip),
        Just(Overlap::QueueOne),
        Just(Overlap::CancelRunning),
        prop::option::of(1_u32..4).prop_map(|parallel_max| Overlap::Allow { parallel_max }),
    ]
}

proptest! {
    // spec: M-9
    #[test]
    fn every_planned_occurrence_runs_or_is_skipped_once_until_the_runs_are_used_up(
        policy in prop::sample::select(&MisfirePolicy::ALL[..]),
        overlap in any_overlap(),
        alive in 0_u32..4,
        left in prop::option::of(0_u64..8),
        skipped in prop::collection::btree_set(1_i64..20, 0..6),
        now in 0_i64..200,
    ) {
        let misfire = Misfire { policy: Some(policy), ..Misfire::default() };
        let mut record = record(misfire.clone(), overlap);
        if let Some(left) = left {
            record.job.schedule = record.job.schedule.at_most(9);
            record.runs = 9 - left;
        }
        record.overrides.skips = skipped.iter().map(|ten| minute(ten * 10)).collect();
        let decision = decided(&record, alive, now);
        let planned =
            plan(&record.job.schedule, minute(10), &misfire, THRESHOLD_DEFAULT, minute(now));

        let nominals = |runs: &[PlannedOccurrence], skips: &[Skip]| {
            let runs = runs.iter().map(|run| run.nominal);
            let mut all: Vec<_> = runs.chain(skips.iter().map(|skip| skip.nominal)).collect();
            all.sort();
            all
        };
        let before = nominals(&planned.fire, &planned.skipped);
        let after = nominals(&decision.plan.fire, &decision.plan.skipped);
        let is_over = decision.plan.fire.len() as u64 >= record.runs_left();
        if is_over {
            prop_assert_eq!(decision.plan.fire.len() as u64, record.runs_left());
            prop_assert!(after.iter().all(|nominal| before.contains(nominal)));
            prop_assert_eq!(decision.plan.cursor, None);
        } else {
            prop_assert_eq!(after, before);
            prop_assert_eq!(decision.plan.cursor, planned.cursor);
        }
        prop_assert!(decision.plan.fire.iter().all(|run| !is_unwanted(&record, run)));
        prop_assert_eq!(decision.plan.missed_count, planned.missed_count);
        prop_assert_eq!(decision.plan.last_nominal, planned.last_nominal);
    }
}
