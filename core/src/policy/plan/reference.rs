//! Reference: the same decision by listing every occurrence, and plans compared with it.

use crate::model::THRESHOLD_DEFAULT;
use proptest::prelude::*;

use super::*;

/// Every occurrence from the cursor up to now, grouped by what it is. Only for outages short enough to list.
struct Listed {
    all: Vec<Timestamp>,
    old: Vec<Timestamp>,
    missed: Vec<Timestamp>,
    in_time: Vec<Timestamp>,
}

fn listed(schedule: &Schedule, cursor: Timestamp, misfire: &Misfire, now: Timestamp) -> Listed {
    let older = |nominal: &Timestamp, limit: Duration| {
        now.duration_since(*nominal) > SignedDuration::try_from(limit).unwrap()
    };
    let before = cursor.checked_sub(SignedDuration::from_nanos(1)).unwrap();
    let all: Vec<Timestamp> = schedule.occurrences(before, now).collect();
    let threshold =
        |nominal| misfire.threshold_in_force(schedule, nominal, THRESHOLD_DEFAULT).duration;
    let (late, in_time): (Vec<_>, Vec<_>) =
        all.iter().copied().partition(|nominal| older(nominal, threshold(*nominal)));
    let (old, missed) = late
        .into_iter()
        .partition(|nominal| misfire.window.is_some_and(|window| older(nominal, window)));
    Listed { all, old, missed, in_time }
}

/// The plan that follows from the list.
fn reference(schedule: &Schedule, cursor: Timestamp, misfire: &Misfire, now: Timestamp) -> Plan {
    let list = listed(schedule, cursor, misfire, now);
    let policy = misfire.policy_in_force();
    let keep = usize::try_from(misfire.catch_up_max).unwrap();
    let missed = &list.missed;
    let (dropped, runs): (&[Timestamp], &[Timestamp]) = match policy {
        MisfirePolicy::FireNow => (&[], &missed[..missed.len().min(1)]),
        MisfirePolicy::FireOnce => (&[], &missed[missed.len().saturating_sub(1)..]),
        MisfirePolicy::FireAll => missed.split_at(missed.len().saturating_sub(keep)),
        MisfirePolicy::SkipToNext => (missed, &[]),
    };
    let reason = match policy {
        MisfirePolicy::FireAll => SkipReason::CatchUpLimit,
        _ => SkipReason::Misfire,
    };
    let restart =
        schedule.follows_last_run() && policy == MisfirePolicy::FireNow && !runs.is_empty();
    let moved = restart.then(|| schedule.reanchored(now));
    let normal: &[Timestamp] = if restart { &[] } else { &list.in_time };
    let taken = normal.len().min(OCCURRENCES_PER_PLAN);
    let undecided = normal.get(taken).copied();
    let mut fire = made_up(policy, runs, missed.len(), now);
    fire.extend(
        normal[..taken]
            .iter()
            .map(|nominal| PlannedOccurrence { nominal: *nominal, misfire: None }),
    );
    Plan {
        fire,
        skipped: [folded(&list.old, SkipReason::Window), folded(dropped, reason)].concat(),
        cursor: undecided.or_else(|| moved.as_ref().unwrap_or(schedule).next(now)),
        schedule: moved,
        last_nominal: match undecided {
            Some(_) => normal.get(taken - 1).copied(),
            None => list.all.last().copied(),
        },
        missed_count: u64::try_from(list.old.len() + missed.len()).unwrap(),
        missed_more: false,
        threshold: {
            let before = cursor.checked_sub(SignedDuration::from_nanos(1)).unwrap();
            let oldest = schedule.next(before).unwrap_or(cursor);
            misfire.threshold_in_force(schedule, oldest, THRESHOLD_DEFAULT).duration
        },
    }
}

fn made_up(
    policy: MisfirePolicy,
    runs: &[Timestamp],
    missed: usize,
    now: Timestamp,
) -> Vec<PlannedOccurrence> {
    let facts = |(index, nominal): (u32, &Timestamp)| MisfireFacts {
        policy,
        misfired_from: *nominal,
        missed_count: u64::try_from(missed).unwrap(),
        missed_more: false,
        detected_at: now,
        delay_ms: u64::try_from(now.duration_since(*nominal).as_millis()).unwrap(),
        index,
    };
    let facts = (0..).zip(runs).map(facts);
    facts
        .map(|facts| PlannedOccurrence { nominal: facts.misfired_from, misfire: Some(facts) })
        .collect()
}

fn folded(instants: &[Timestamp], reason: SkipReason) -> Vec<Skip> {
    let size = if instants.len() > 100 { instants.len() } else { 1 };
    let fold = |chunk: &[Timestamp]| Skip {
        nominal: chunk[chunk.len() - 1],
        first: chunk[0],
        count: u64::try_from(chunk.len()).unwrap(),
        more: false,
        reason,
    };
    instants.chunks(size).map(fold).collect()
}

fn planned(schedule: &Schedule, cursor: Timestamp, misfire: &Misfire, now: Timestamp) -> Plan {
    plan(schedule, cursor, misfire, THRESHOLD_DEFAULT, now)
}

fn any_schedule() -> impl Strategy<Value = Schedule> {
    const CRONS: &[&str] = &[
        "* * * * *",
        "*/5 * * * *",
        "0 * * * *",
        "30 2 * * *",
        "*/20 9-17 * * MON-FRI",
        "15,45 30 1-3 * * *",
    ];
    const ZONES: &[&str] = &["UTC", "Europe/Warsaw", "America/New_York", "Australia/Lord_Howe"];
    prop_oneof![
        (prop::sample::select(CRONS), prop::sample::select(ZONES))
            .prop_map(|(text, zone)| Schedule::cron(text, zone).unwrap()),
        (prop::sample::select(CRONS), 0_i64..3_000_000).prop_map(|(text, duration)| {
            let end = Timestamp::from_second(1_774_000_000 + duration).unwrap();
            Schedule::cron(text, "UTC").unwrap().ending(end).unwrap()
        }),
        (1_000_u64..100_000_000, 0_i64..1_000_000, any::<bool>()).prop_map(
            |(every, anchor, follows)| {
                let anchor = Timestamp::from_millisecond(anchor).unwrap();
                let every = Schedule::every(Duration::from_millis(every), anchor).unwrap();
                if follows { every.following_last_run() } else { every }
            }
        ),
    ]
}

fn any_misfire() -> impl Strategy<Value = Misfire> {
    let duration = || prop::option::of((0_u64..100_000).prop_map(Duration::from_secs));
    (
        prop::option::of(prop::sample::select(&MisfirePolicy::ALL[..])),
        duration(),
        duration(),
        1_u32..150,
    )
        .prop_map(|(policy, threshold, window, catch_up_max)| Misfire {
            policy,
            threshold,
            window,
            catch_up_max,
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_plan_is_what_listing_every_occurrence_gives(
        schedule in any_schedule(),
        misfire in any_misfire(),
        // Around the clock changes of spring 2026.
        start in 1_773_900_000_i64..1_775_300_000,
        outage in prop_oneof![0_i64..600, 0_i64..9_000, 0_i64..400_000],
        on_grid in any::<bool>(),
    ) {
        let start = Timestamp::from_second(start).unwrap();
        let Some(next) = schedule.next(start) else { return Ok(()) };
        let cursor = if on_grid { next } else { start };
        let now = cursor.checked_add(SignedDuration::from_secs(outage)).unwrap();
        prop_assume!(schedule.count(cursor, now, COUNT_MAX) < COUNT_MAX);
        prop_assert_eq!(planned(&schedule, cursor, &misfire, now), reference(&schedule, cursor, &misfire, now));
    }

    // spec: M-9
    #[test]
    fn plans_one_after_another_decide_about_each_occurrence_once(
        schedule in any_schedule(),
        misfire in any_misfire(),
        steps in prop::collection::vec(1_i64..20_000, 1..8),
    ) {
        let mut now = Timestamp::from_second(1_774_500_000).unwrap();
        let Some(mut cursor) = schedule.next(now) else { return Ok(()) };
        let mut last = now;
        for step in steps {
            now = now.checked_add(SignedDuration::from_secs(step)).unwrap();
            let plan = planned(&schedule, cursor, &misfire, now);
            for planned in &plan.fire {
                prop_assert!(planned.nominal > last && planned.nominal <= now);
            }
            prop_assert!(plan.fire.is_sorted_by(|a, b| a.nominal < b.nominal));
            last = plan.last_nominal.unwrap_or(last);
            let Some(next) = plan.cursor else { break };
            prop_assert!(next > last && next >= cursor);
            // A moved anchor is another schedule; this walk stays on one.
            if plan.schedule.is_some() { break }
            cursor = next;
        }
    }
}
