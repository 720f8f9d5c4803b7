//! A week of virtual time with two outages, for each misfire policy, in four zones, each over a clock change. The
//! expected instants are constants, so that they do not depend on the tested code.

use punctual::jiff::{SignedDuration, Timestamp};
use punctual::model::{Ending, SkipReason};
use punctual::testing::TestHarness;
use punctual::{Builder, Job, Misfire, Occurrence};

use crate::harness::instant;

/// A job at one time of day in a zone, and its seven instants.
struct ZonedSchedule {
    zone: &'static str,
    cron: &'static str,
    nominals: [&'static str; 7],
}

const SCHEDULES: [ZonedSchedule; 4] = [
    ZonedSchedule {
        zone: "UTC",
        cron: "30 2 * * *",
        nominals: [
            "2026-03-02T02:30:00Z",
            "2026-03-03T02:30:00Z",
            "2026-03-04T02:30:00Z",
            "2026-03-05T02:30:00Z",
            "2026-03-06T02:30:00Z",
            "2026-03-07T02:30:00Z",
            "2026-03-08T02:30:00Z",
        ],
    },
    // On 8 March the clocks go from 02:00 to 03:00; there is no 02:30, so it runs at 03:00.
    ZonedSchedule {
        zone: "America/New_York",
        cron: "30 2 * * *",
        nominals: [
            "2026-03-04T07:30:00Z",
            "2026-03-05T07:30:00Z",
            "2026-03-06T07:30:00Z",
            "2026-03-07T07:30:00Z",
            "2026-03-08T07:00:00Z",
            "2026-03-09T06:30:00Z",
            "2026-03-10T06:30:00Z",
        ],
    },
    // On 25 October the clocks go from 03:00 back to 02:00; 02:30 comes twice and runs the first time.
    ZonedSchedule {
        zone: "Europe/Warsaw",
        cron: "30 2 * * *",
        nominals: [
            "2026-10-21T00:30:00Z",
            "2026-10-22T00:30:00Z",
            "2026-10-23T00:30:00Z",
            "2026-10-24T00:30:00Z",
            "2026-10-25T00:30:00Z",
            "2026-10-26T01:30:00Z",
            "2026-10-27T01:30:00Z",
        ],
    },
    // On 5 April the clocks go from 02:00 back to 01:30, by half an hour.
    ZonedSchedule {
        zone: "Australia/Lord_Howe",
        cron: "45 1 * * *",
        nominals: [
            "2026-03-31T14:45:00Z",
            "2026-04-01T14:45:00Z",
            "2026-04-02T14:45:00Z",
            "2026-04-03T14:45:00Z",
            "2026-04-04T14:45:00Z",
            "2026-04-05T15:15:00Z",
            "2026-04-06T15:15:00Z",
        ],
    },
];

/// A run: index of its instant, index and distance of the instant after which it began, and the number of
/// missed occurrences it stands for.
type Run = (usize, usize, SignedDuration, u64);

const ON_TIME: SignedDuration = SignedDuration::ZERO;
/// The second instant is missed by half an hour.
const SHORT: SignedDuration = SignedDuration::from_mins(30);
/// The fourth to the sixth are missed, the sixth by two hours.
const LONG: SignedDuration = SignedDuration::from_hours(2);

fn runs(misfire: &str) -> Vec<Run> {
    let mut runs = vec![(0, 0, ON_TIME, 0), (2, 2, ON_TIME, 0), (6, 6, ON_TIME, 0)];
    match misfire {
        "fire_now" => runs.extend([(1, 1, SHORT, 1), (3, 5, LONG, 3)]),
        "fire_once" => runs.extend([(1, 1, SHORT, 1), (5, 5, LONG, 3)]),
        "fire_all" => {
            runs.extend([(1, 1, SHORT, 1), (3, 5, LONG, 3), (4, 5, LONG, 3), (5, 5, LONG, 3)]);
        }
        _ => {}
    }
    runs.sort_by_key(|(nominal, ..)| *nominal);
    runs
}

async fn run_week(schedule: &ZonedSchedule, misfire: Misfire) -> TestHarness {
    let nominals = schedule.nominals.map(instant);
    let build = |builder: Builder| {
        let job = Job::cron("report", schedule.cron).zone(schedule.zone).misfire(misfire.clone());
        builder.job(job, async |_: Occurrence| {})
    };
    let start = nominals[0] - SignedDuration::from_hours(1);
    let mut process = TestHarness::start_at(start, build).await.unwrap();
    for (from, until) in [
        (nominals[1] - SignedDuration::from_mins(10), nominals[1] + SHORT),
        (nominals[3] - SignedDuration::from_hours(1), nominals[5] + LONG),
    ] {
        process.advance_to(from).await;
        process.shutdown().await;
        process.clock().set(until);
        process = process.another(build).await.unwrap();
    }
    process.advance_to(nominals[6] + SignedDuration::from_hours(1)).await;
    process
}

// Trap 19: a gap, a fold, and a change of thirty minutes.
// spec: M-1, M-2, M-14, M-15, M-16, M-17, M-19, M-22, U-19, H-42, H-43
#[tokio::test]
async fn a_week_with_two_outages_in_four_zones_and_by_four_policies() {
    for schedule in &SCHEDULES {
        for (name, misfire) in [
            ("fire_now", Misfire::fire_now()),
            ("fire_once", Misfire::fire_once()),
            ("fire_all", Misfire::fire_all()),
            ("skip_to_next", Misfire::skip_to_next()),
        ] {
            let nominals = schedule.nominals.map(instant);
            let process = run_week(schedule, misfire).await;
            let executions = process.executions("report");
            let mut ran: Vec<(Timestamp, Timestamp)> = executions
                .iter()
                .filter(|one| one.ending == Ending::Succeeded)
                .map(|one| (one.nominal.unwrap(), one.started_at))
                .collect();
            ran.sort_unstable();
            let expected: Vec<(Timestamp, Timestamp)> = runs(name)
                .into_iter()
                .map(|(nominal, after, late, _)| (nominals[nominal], nominals[after] + late))
                .collect();
            assert_eq!(ran, expected, "{name} in {}", schedule.zone);
            let mut stands_for: Vec<(Timestamp, u64)> = process
                .messages("report")
                .iter()
                .filter_map(|record| record.message.occurrence.clone())
                .filter_map(|run| Some((run.nominal, run.misfire?.missed_count)))
                .collect();
            stands_for.sort_unstable();
            let expected = runs(name).into_iter().filter(|(.., missed)| *missed > 0);
            let expected: Vec<(Timestamp, u64)> =
                expected.map(|(nominal, .., missed)| (nominals[nominal], missed)).collect();
            assert_eq!(stands_for, expected, "{name} in {}", schedule.zone);
            let skipped = executions
                .iter()
                .filter(|one| one.ending == Ending::Skipped(SkipReason::Misfire))
                .filter_map(|one| one.nominal);
            let skipped: Vec<Timestamp> = skipped.collect();
            let expected = match name {
                "skip_to_next" => vec![nominals[1], nominals[3], nominals[4], nominals[5]],
                _ => Vec::new(),
            };
            assert_eq!(skipped, expected, "{name} in {}", schedule.zone);
        }
    }
}
