//! Tests of the plan: tables for each policy, and boundaries.

use super::*;
use crate::model::THRESHOLD_DEFAULT;

const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// A time of day on the day most tests are set on.
fn today(time: &str) -> Timestamp {
    at(&format!("2026-01-05T{time}Z"))
}

fn cron(text: &str) -> Schedule {
    Schedule::cron(text, "UTC").unwrap()
}

fn planned(schedule: &Schedule, cursor: Timestamp, misfire: &Misfire, now: Timestamp) -> Plan {
    plan(schedule, cursor, misfire, THRESHOLD_DEFAULT, now)
}

fn nominals(plan: &Plan) -> Vec<Timestamp> {
    plan.fire.iter().map(|planned| planned.nominal).collect()
}

/// Returns the misfire facts of each fired instant: policy, count and position.
fn facts(plan: &Plan) -> Vec<Option<(MisfirePolicy, u64, u32)>> {
    let fact = |facts: &MisfireFacts| (facts.policy, facts.missed_count, facts.index);
    plan.fire.iter().map(|planned| planned.misfire.as_ref().map(fact)).collect()
}

// spec: H-44, M-20
#[test]
fn what_is_in_time_runs_normally_whatever_the_policy() {
    let hourly = cron("0 * * * *");
    for misfire in MisfirePolicy::ALL.map(Misfire::from) {
        let plan = planned(&hourly, today("08:00:00"), &misfire, today("08:00:00"));
        assert_eq!(nominals(&plan), [today("08:00:00")]);
        assert_eq!(facts(&plan), [None]);
        assert_eq!(plan.skipped, []);
        assert_eq!(plan.cursor, Some(today("09:00:00")));
        assert_eq!(plan.last_nominal, Some(today("08:00:00")));
        assert_eq!((plan.missed_count, plan.missed_more), (0, false));
    }
}

#[test]
fn before_the_cursor_nothing_happens() {
    let plan =
        planned(&cron("0 * * * *"), today("09:00:00"), &Misfire::default(), today("08:59:59.999"));
    let expected = Plan { cursor: Some(today("09:00:00")), threshold: MINUTE, ..Plan::default() };
    assert_eq!(plan, expected);
}

// spec: H-39, H-40, M-4
#[test]
fn later_than_the_threshold_is_strictly_later() {
    let daily = cron("0 8 * * *");
    for (misfire, now, missed) in [
        (Misfire::default(), "08:01:00", 0),
        (Misfire::default(), "08:01:00.000000001", 1),
        (Misfire::skip_to_next(), "08:05:00", 0),
        (Misfire::skip_to_next(), "08:05:00.000000001", 1),
        (Misfire::skip_to_next().threshold(HOUR), "09:00:00", 0),
        (Misfire::skip_to_next().threshold(HOUR), "09:00:00.000000001", 1),
        (Misfire::default().threshold(Duration::ZERO), "08:00:00", 0),
        (Misfire::default().threshold(Duration::ZERO), "08:00:00.000000001", 1),
        (Misfire::skip_to_next().threshold(Duration::MAX), "23:59:59", 0),
    ] {
        let plan = planned(&daily, today("08:00:00"), &misfire, today(now));
        assert_eq!(plan.missed_count, missed, "{misfire:?} at {now}");
        let in_time = plan.fire.iter().filter(|planned| planned.misfire.is_none()).count();
        assert_eq!(in_time == 1, missed == 0, "{misfire:?} at {now}");
        assert_eq!(plan.cursor, Some(at("2026-01-06T08:00:00Z")));
    }
    let option = plan(&daily, today("08:00:00"), &Misfire::default(), HOUR, today("08:30:00"));
    assert_eq!((option.missed_count, option.threshold), (0, HOUR));
}

// spec: M-1, M-9, M-14, M-21, H-41, H-43, H-46
#[test]
fn fire_now_runs_once_with_the_nominal_time_of_the_oldest() {
    let hourly = cron("0 * * * *");
    let plan = planned(&hourly, today("01:00:00"), &Misfire::default(), today("10:30:00"));
    let facts = MisfireFacts {
        policy: MisfirePolicy::FireNow,
        misfired_from: today("01:00:00"),
        missed_count: 10,
        missed_more: false,
        detected_at: today("10:30:00"),
        delay_ms: 9 * 3_600_000 + 1_800_000,
        index: 0,
    };
    assert_eq!(plan.fire, [PlannedOccurrence { nominal: today("01:00:00"), misfire: Some(facts) }]);
    assert_eq!(plan.skipped, []);
    assert_eq!(plan.cursor, Some(today("11:00:00")));
    assert_eq!(plan.last_nominal, Some(today("10:00:00")));
    assert_eq!((plan.missed_count, plan.missed_more), (10, false));
    assert_eq!(plan.schedule, None);
}

// spec: M-17, M-21
#[test]
fn fire_once_runs_once_with_the_nominal_time_of_the_newest() {
    let hourly = cron("0 * * * *");
    let plan = planned(&hourly, today("01:00:00"), &Misfire::fire_once(), today("10:30:00"));
    assert_eq!(nominals(&plan), [today("10:00:00")]);
    assert_eq!(facts(&plan), [Some((MisfirePolicy::FireOnce, 10, 0))]);
    let made_up = plan.fire[0].misfire.as_ref().unwrap();
    assert_eq!(made_up.misfired_from, today("10:00:00"));
    assert_eq!(made_up.delay_ms, 1_800_000);
    assert_eq!(plan.cursor, Some(today("11:00:00")));
}

// spec: M-10, M-12, M-16
#[test]
fn fire_all_runs_each_oldest_first() {
    let hourly = cron("0 * * * *");
    let plan = planned(&hourly, today("08:00:00"), &Misfire::fire_all(), today("10:30:00"));
    assert_eq!(nominals(&plan), ["08:00:00", "09:00:00", "10:00:00"].map(today));
    assert_eq!(facts(&plan), [0, 1, 2].map(|index| Some((MisfirePolicy::FireAll, 3, index))));
    for planned in &plan.fire {
        assert_eq!(planned.misfire.as_ref().unwrap().misfired_from, planned.nominal);
    }
}

// spec: M-23
#[test]
fn fire_all_keeps_the_newest_and_records_the_rest() {
    let hourly = cron("0 * * * *");
    let misfire = Misfire::fire_all().catch_up_max(2);
    let plan = planned(&hourly, today("06:00:00"), &misfire, today("10:30:00"));
    assert_eq!(nominals(&plan), ["09:00:00", "10:00:00"].map(today));
    assert_eq!(facts(&plan), [0, 1].map(|index| Some((MisfirePolicy::FireAll, 5, index))));
    let dropped = |time| {
        let nominal = today(time);
        Skip { nominal, first: nominal, count: 1, more: false, reason: SkipReason::CatchUpLimit }
    };
    assert_eq!(plan.skipped, ["06:00:00", "07:00:00", "08:00:00"].map(dropped));

    let minutely =
        planned(&cron("* * * * *"), today("00:00:00"), &Misfire::fire_all(), today("10:00:00"));
    assert_eq!(minutely.fire.iter().filter(|planned| planned.misfire.is_some()).count(), 100);
    let fold = Skip {
        nominal: today("08:18:00"),
        first: today("00:00:00"),
        count: 499,
        more: false,
        reason: SkipReason::CatchUpLimit,
    };
    assert_eq!(minutely.skipped, [fold]);
    assert_eq!(nominals(&minutely)[0], today("08:19:00"));
}

// spec: H-42, M-15
#[test]
fn skip_to_next_runs_none_and_continues_at_the_next() {
    let hourly = cron("0 * * * *");
    let plan = planned(&hourly, today("08:00:00"), &Misfire::skip_to_next(), today("10:30:00"));
    assert_eq!(plan.fire, []);
    let skipped = |time| {
        let nominal = today(time);
        Skip { nominal, first: nominal, count: 1, more: false, reason: SkipReason::Misfire }
    };
    assert_eq!(plan.skipped, ["08:00:00", "09:00:00", "10:00:00"].map(skipped));
    assert_eq!(plan.cursor, Some(today("11:00:00")));
    let next = planned(&hourly, today("11:00:00"), &Misfire::skip_to_next(), today("11:00:01"));
    assert_eq!((nominals(&next), next.missed_count), (vec![today("11:00:00")], 0));
}

#[test]
fn up_to_a_hundred_skips_are_listed_and_more_are_folded() {
    let minutely = cron("* * * * *");
    let misfire = Misfire::skip_to_next().threshold(Duration::ZERO);
    let skipped = |now| planned(&minutely, today("00:00:00"), &misfire, today(now)).skipped;
    assert_eq!(skipped("01:39:30").len(), 100);
    let folded = skipped("01:40:30");
    assert_eq!(folded.len(), 1);
    assert_eq!((folded[0].first, folded[0].nominal), (today("00:00:00"), today("01:40:00")));
    assert_eq!((folded[0].count, folded[0].more), (101, false));
}

// spec: M-11
#[test]
fn what_is_younger_than_the_threshold_is_left_to_run_normally() {
    let minutely = cron("* * * * *");
    for (misfire, made_up) in [
        (Misfire::fire_now(), vec!["10:00:00"]),
        (Misfire::fire_once(), vec!["10:04:00"]),
        (Misfire::fire_all(), vec!["10:00:00", "10:01:00", "10:02:00", "10:03:00", "10:04:00"]),
        (Misfire::skip_to_next(), vec![]),
    ] {
        let misfire = misfire.threshold(5 * MINUTE);
        let plan = planned(&minutely, today("10:00:00"), &misfire, today("10:09:30"));
        let late: Vec<_> = plan.fire.iter().filter(|planned| planned.misfire.is_some()).collect();
        assert_eq!(
            late.iter().map(|planned| planned.nominal).collect::<Vec<_>>(),
            made_up.into_iter().map(today).collect::<Vec<_>>()
        );
        let in_time: Vec<_> = nominals(&plan).split_off(late.len());
        assert_eq!(
            in_time,
            ["10:05:00", "10:06:00", "10:07:00", "10:08:00", "10:09:00"].map(today)
        );
        assert_eq!(plan.missed_count, 5);
        assert_eq!(plan.cursor, Some(today("10:10:00")));
    }
}

// spec: M-4, M-11
#[test]
fn without_a_threshold_only_the_newest_can_be_merely_late() {
    let minutely = cron("* * * * *");
    for (misfire, made_up) in [
        (Misfire::fire_now(), vec!["10:00:00"]),
        (Misfire::fire_once(), vec!["10:02:00"]),
        (Misfire::fire_all(), vec!["10:00:00", "10:01:00", "10:02:00"]),
        (Misfire::skip_to_next(), vec![]),
    ] {
        let plan = planned(&minutely, today("10:00:00"), &misfire, today("10:03:10"));
        let mut expected: Vec<_> = made_up.into_iter().map(today).collect();
        expected.push(today("10:03:00"));
        assert_eq!(nominals(&plan), expected, "{misfire:?}");
        assert_eq!(plan.fire.iter().filter(|planned| planned.misfire.is_none()).count(), 1);
        assert_eq!((plan.missed_count, plan.threshold), (3, MINUTE));
    }
    // As late as the next one is far is not strictly later, so it still counts as late.
    let plan = planned(&minutely, today("10:00:00"), &Misfire::fire_now(), today("10:01:00"));
    assert_eq!((nominals(&plan).len(), plan.missed_count), (2, 0));
    // A given threshold is taken as it is.
    let given = Misfire::skip_to_next().threshold(5 * MINUTE);
    let plan = planned(&minutely, today("10:00:00"), &given, today("10:03:10"));
    assert_eq!((nominals(&plan).len(), plan.missed_count), (4, 0));
}

// spec: M-18
#[test]
fn example_a_one_hour_late_is_no_misfire_at_a_threshold_of_two() {
    let daily = cron("0 8 * * *");
    let misfire = Misfire::fire_once().threshold(2 * HOUR);
    let plan = planned(&daily, today("08:00:00"), &misfire, today("09:00:00"));
    assert_eq!(plan.missed_count, 0);
    assert_eq!(facts(&plan), [None]);
}

// spec: M-19
#[test]
fn example_b_half_an_hour_of_five_minutes_fires_each_older_than_five() {
    let plan =
        planned(&cron("*/5 * * * *"), today("10:05:00"), &Misfire::fire_all(), today("10:32:00"));
    let late: Vec<_> = plan
        .fire
        .iter()
        .filter(|planned| planned.misfire.is_some())
        .map(|planned| planned.nominal)
        .collect();
    assert_eq!(late, ["10:05:00", "10:10:00", "10:15:00", "10:20:00", "10:25:00"].map(today));
    assert_eq!(nominals(&plan)[5..], [today("10:30:00")]);
}

#[test]
fn older_than_the_window_is_never_run() {
    let hourly = cron("0 * * * *");
    for (misfire, fired, count) in [
        (Misfire::fire_now(), vec!["08:00:00"], 3),
        (Misfire::fire_once(), vec!["10:00:00"], 3),
        (Misfire::fire_all(), vec!["08:00:00", "09:00:00", "10:00:00"], 3),
    ] {
        // Exactly as old as the window is still inside.
        let misfire = misfire.window(2 * HOUR + 30 * MINUTE);
        let plan = planned(&hourly, today("06:00:00"), &misfire, today("10:30:00"));
        assert_eq!(
            nominals(&plan),
            fired.into_iter().map(today).collect::<Vec<_>>(),
            "{misfire:?}"
        );
        assert_eq!(plan.fire[0].misfire.as_ref().unwrap().missed_count, count);
        assert_eq!(plan.missed_count, 5);
        let skipped: Vec<_> = plan.skipped.iter().map(|skip| (skip.nominal, skip.reason)).collect();
        assert_eq!(skipped, ["06:00:00", "07:00:00"].map(|time| (today(time), SkipReason::Window)));
    }
    // A window shorter than the threshold drops all that was missed and nothing that was not.
    let narrow = Misfire::fire_now().window(MINUTE).threshold(5 * MINUTE);
    let plan = planned(&cron("* * * * *"), today("10:00:00"), &narrow, today("10:10:30"));
    assert_eq!(plan.skipped.len(), 6);
    assert_eq!(facts(&plan), [None; 5]);
}

// spec: M-7
#[test]
fn a_late_interval_keeps_its_grid() {
    let every = Schedule::every(20 * MINUTE, today("00:00:00")).unwrap();
    for misfire in MisfirePolicy::ALL.map(Misfire::from).into_iter().chain([Misfire::default()]) {
        let plan = planned(&every, today("01:00:00"), &misfire, today("10:07:00"));
        assert_eq!((plan.schedule, plan.cursor), (None, Some(today("10:20:00"))), "{misfire:?}");
        assert_eq!((plan.missed_count, plan.last_nominal), (28, Some(today("10:00:00"))));
    }
    // An occurrence still on time runs beside the run for the missed ones.
    let plan = planned(&every, today("01:00:00"), &Misfire::fire_now(), today("10:03:00"));
    assert_eq!(nominals(&plan), [today("01:00:00"), today("10:00:00")]);
}

// spec: M-7
#[test]
fn a_late_interval_that_follows_its_last_run_counts_anew_from_it() {
    let anchored = Schedule::every(20 * MINUTE, today("00:00:00")).unwrap();
    let every = anchored.following_last_run();
    let plan = planned(&every, today("01:00:00"), &Misfire::default(), today("10:07:00.000000999"));
    assert_eq!(nominals(&plan), [today("01:00:00")]);
    assert_eq!(plan.missed_count, 28);
    assert_eq!(plan.cursor, Some(today("10:27:00")), "whole microseconds");
    assert_eq!(plan.last_nominal, Some(today("10:00:00")));
    let moved = plan.schedule.unwrap();
    assert_eq!(moved.next(today("10:07:00")), plan.cursor);
    // Occurrences still on time are covered by that run.
    let often = Schedule::every(MINUTE, today("00:00:00")).unwrap().following_last_run();
    let plan = planned(&often, today("10:00:00"), &Misfire::fire_now(), today("10:09:30"));
    assert_eq!(nominals(&plan), [today("10:00:00")]);
    assert_eq!(plan.cursor, Some(today("10:10:30")));
    // The other policies keep the grid, and so does an interval in time.
    for misfire in [Misfire::fire_once(), Misfire::fire_all(), Misfire::skip_to_next()] {
        let plan = planned(&every, today("01:00:00"), &misfire, today("10:07:00"));
        assert_eq!((plan.schedule, plan.cursor), (None, Some(today("10:20:00"))));
    }
    let plan = planned(&every, today("10:00:00"), &Misfire::default(), today("10:00:59"));
    assert_eq!((plan.schedule, plan.cursor), (None, Some(today("10:20:00"))));
    // Missed for longer than the window: no run, so nothing to count from.
    let misfire = Misfire::fire_now().window(MINUTE);
    let plan = planned(&every, today("01:00:00"), &misfire, today("10:19:00"));
    assert_eq!((plan.fire, plan.schedule, plan.cursor), (vec![], None, Some(today("10:20:00"))));
}

// spec: H-45, M-7
#[test]
fn a_one_time_schedule_fires_however_late_and_is_never_a_misfire() {
    let once = Schedule::once(today("01:00:00"));
    for misfire in
        MisfirePolicy::ALL.map(|policy| Misfire::from(policy).threshold(MINUTE).window(MINUTE))
    {
        let plan = planned(&once, today("01:00:00"), &misfire, at("2036-01-05T00:00:00Z"));
        assert_eq!(plan.fire, [PlannedOccurrence { nominal: today("01:00:00"), misfire: None }]);
        assert_eq!((plan.skipped.len(), plan.missed_count, plan.cursor), (0, 0, None));
        assert_eq!(plan.last_nominal, Some(today("01:00:00")));
    }
}

#[test]
fn a_cursor_that_an_operator_moved_need_not_be_an_occurrence() {
    let hourly = cron("0 * * * *");
    let plan = planned(&hourly, today("08:20:00"), &Misfire::fire_all(), today("10:02:00"));
    assert_eq!(nominals(&plan), ["09:00:00", "10:00:00"].map(today));
    assert_eq!(facts(&plan), [Some((MisfirePolicy::FireAll, 1, 0)), None]);
    let none = planned(&hourly, today("08:20:00"), &Misfire::fire_all(), today("08:40:00"));
    assert_eq!(
        (none.fire.len(), none.last_nominal, none.cursor),
        (0, None, Some(today("09:00:00")))
    );
}

#[test]
fn a_schedule_that_is_over_has_no_cursor() {
    let ending = cron("0 * * * *").ending(today("10:00:00")).unwrap();
    let plan = planned(&ending, today("08:00:00"), &Misfire::fire_all(), today("12:00:00"));
    assert_eq!(nominals(&plan), ["08:00:00", "09:00:00"].map(today));
    assert_eq!((plan.cursor, plan.last_nominal), (None, Some(today("09:00:00"))));
}

#[test]
fn too_many_on_time_continue_in_the_next_plan() {
    let secondly = cron("* * * * * *");
    let misfire = Misfire::fire_now().threshold(HOUR);
    let (mut cursor, now) = (today("10:00:00"), today("10:40:00"));
    let mut seen = Vec::new();
    let mut plans = 0;
    while cursor <= now {
        let plan = planned(&secondly, cursor, &misfire, now);
        assert!(plan.fire.len() <= OCCURRENCES_PER_PLAN);
        assert_eq!(plan.last_nominal, plan.fire.last().map(|planned| planned.nominal));
        seen.extend(nominals(&plan));
        cursor = plan.cursor.unwrap();
        plans += 1;
    }
    assert_eq!((plans, seen.len(), cursor), (3, 2_401, today("10:40:01")));
    assert!(seen.is_sorted_by(|a, b| a < b));
}

// spec: M-23, H-46
#[test]
fn a_year_of_seconds_is_counted_up_to_a_bound() {
    let secondly = cron("* * * * * *");
    let (cursor, now) = (at("2025-01-05T00:00:00Z"), today("00:00:00"));
    for misfire in MisfirePolicy::ALL.map(|policy| Misfire::from(policy).window(200 * 24 * HOUR)) {
        let plan = planned(&secondly, cursor, &misfire, now);
        assert_eq!((plan.missed_count, plan.missed_more), (2 * COUNT_MAX, true));
        assert!(plan.skipped.len() <= 2 && plan.fire.len() <= 101 + 301, "{misfire:?}");
        assert!(plan.skipped.iter().all(|skip| skip.more && skip.count >= COUNT_MAX - 100));
        let made_up = plan.fire.iter().filter_map(|planned| planned.misfire.as_ref());
        assert!(
            made_up.into_iter().all(|facts| facts.missed_more && facts.missed_count == COUNT_MAX)
        );
        assert_eq!(plan.cursor, Some(today("00:00:01")));
    }
}

// spec: H-42
#[test]
fn occurrences_follow_the_zone_of_the_job_across_clock_changes() {
    // 02:30 does not exist on 29 March and is twice on 25 October.
    let warsaw = Schedule::cron("30 2 * * *", "Europe/Warsaw").unwrap();
    let spring = planned(
        &warsaw,
        at("2026-03-28T01:30:00Z"),
        &Misfire::fire_all(),
        at("2026-03-30T12:00:00Z"),
    );
    let expected = ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"].map(at);
    assert_eq!(nominals(&spring), expected);
    assert_eq!(spring.cursor, Some(at("2026-03-31T00:30:00Z")));
    let autumn = planned(
        &warsaw,
        at("2026-10-24T00:30:00Z"),
        &Misfire::skip_to_next(),
        at("2026-10-25T12:00:00Z"),
    );
    let skipped: Vec<_> = autumn.skipped.iter().map(|skip| skip.nominal).collect();
    assert_eq!(skipped, ["2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z"].map(at));
    assert_eq!(autumn.cursor, Some(at("2026-10-26T01:30:00Z")));
}

#[test]
fn extreme_instants_do_not_overflow() {
    let secondly = cron("* * * * * *");
    let every = Schedule::every(MINUTE, Timestamp::MIN).unwrap();
    for schedule in [&secondly, &every, &Schedule::once(Timestamp::MAX)] {
        for (cursor, now) in [
            (Timestamp::MIN, Timestamp::MIN),
            (Timestamp::MIN, Timestamp::MAX),
            (Timestamp::MAX, Timestamp::MAX),
        ] {
            for policy in MisfirePolicy::ALL {
                let plan = planned(schedule, cursor, &policy.into(), now);
                assert!(plan.fire.len() <= 100 + OCCURRENCES_PER_PLAN);
            }
        }
    }
}
