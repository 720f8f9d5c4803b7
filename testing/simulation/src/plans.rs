//! Plans of a seed: start time, jobs, and changes of declarations from release to release. Time starts near a clock
//! change.

use std::time::Duration;

use punctual::client::JobBuilder;
use punctual::jiff::{SignedDuration, Timestamp};
use punctual::model::{
    HandlerOptions, MisfirePolicy, OnTimeout, Recording, Rescue, WhenInterrupted,
};
use punctual::schedule::{Schedule, Spread, SpreadLimit};
use punctual::{Job, Misfire, Overlap, Retry};

use super::random::Random;

/// Time zones with the instants of their clock changes.
const CHANGES: [(&str, &str); 9] = [
    ("America/New_York", "2026-03-08T07:00:00Z"),
    ("America/New_York", "2026-11-01T06:00:00Z"),
    ("Europe/Warsaw", "2026-03-29T01:00:00Z"),
    ("Europe/Warsaw", "2026-10-25T01:00:00Z"),
    ("Australia/Lord_Howe", "2026-04-04T15:00:00Z"),
    ("Australia/Lord_Howe", "2026-10-03T15:30:00Z"),
    ("Pacific/Apia", "2011-12-30T10:00:00Z"),
    ("America/Sao_Paulo", "2018-11-04T03:00:00Z"),
    ("UTC", "2026-12-31T23:59:30Z"),
];

const CRONS: [&str; 10] = [
    "*/5 * * * *",
    "*/2 * * * *",
    "*/10 * * * *",
    "0,30 * * * *",
    "30 0-3 * * *",
    "15,45 1-2 * * *",
    "7 * * * *",
    "*/30 * * * * *",
    "30 2 * * *",
    "*/15 22-4 * * *",
];

/// Schedule of a job.
#[derive(Clone, Debug)]
enum PlannedSchedule {
    Cron(&'static str, &'static str),
    Every(Duration, bool),
    Once(Timestamp),
}

/// Declaration of a job in one release.
#[derive(Clone, Debug)]
pub(crate) struct JobPlan {
    pub(crate) name: String,
    when: PlannedSchedule,
    runs_max: Option<u64>,
    misfire: Misfire,
    overlap: Overlap,
    spread: Spread,
    retry: Retry,
    timeout: Option<Duration>,
}

/// Start time and time zone of a seed.
pub(crate) struct StartPoint {
    pub(crate) start: Timestamp,
    zone: &'static str,
}

impl StartPoint {
    pub(crate) fn draw(random: &mut Random) -> Self {
        let (zone, change) = *random.pick(&CHANGES);
        let change: Timestamp = change.parse().expect("an instant");
        let before =
            SignedDuration::from_millis(i64::try_from(random.below(7_200_000)).unwrap_or(0));
        Self { start: change - before, zone }
    }
}

impl JobPlan {
    pub(crate) fn draw(name: String, start_point: &StartPoint, random: &mut Random) -> Self {
        Self {
            name,
            when: draw_when(start_point, random),
            runs_max: random.percent(10).then(|| random.between(1, 20)),
            misfire: draw_misfire(random),
            overlap: draw_overlap(random),
            spread: match random.below(5) {
                0 => Spread::Stable(SpreadLimit::Duration(random.seconds(1, 60))),
                1 => Spread::Random(SpreadLimit::Percent(20)),
                _ => Spread::None,
            },
            retry: draw_retry(random, 2),
            timeout: random.percent(30).then(|| random.seconds(5, 120)),
        }
    }

    /// Returns the job with one change, for the next release.
    pub(crate) fn changed(&self, start_point: &StartPoint, random: &mut Random) -> Self {
        let mut plan = self.clone();
        match random.below(4) {
            0 => plan.when = draw_when(start_point, random),
            1 => plan.misfire = draw_misfire(random),
            2 => plan.overlap = draw_overlap(random),
            _ => plan.retry = draw_retry(random, 3),
        }
        plan
    }

    pub(crate) fn builder(&self) -> JobBuilder {
        let schedule = match &self.when {
            PlannedSchedule::Cron(text, zone) => Schedule::cron(text, zone),
            PlannedSchedule::Every(every, follows) => {
                let schedule = Schedule::every(*every, Timestamp::UNIX_EPOCH);
                schedule.map(|every| if *follows { every.following_last_run() } else { every })
            }
            PlannedSchedule::Once(at) => Ok(Schedule::once(*at)),
        };
        let schedule = schedule.expect("a schedule");
        let schedule = self.runs_max.into_iter().fold(schedule, Schedule::at_most);
        Job::scheduled(&self.name, schedule)
            .misfire(self.misfire.clone())
            .overlap(self.overlap)
            .spread(self.spread)
            .retry(self.retry.clone())
            .timeout(self.timeout.unwrap_or_default())
    }
}

/// Draws the declarations of every release, oldest first.
pub(crate) fn draw_releases(start_point: &StartPoint, random: &mut Random) -> Vec<Vec<JobPlan>> {
    let count = random.between(1, 4);
    let mut names = 0;
    let mut fresh = |random: &mut Random| {
        names += 1;
        JobPlan::draw(format!("job-{names}"), start_point, random)
    };
    let mut releases = vec![(0..count).map(|_| fresh(random)).collect::<Vec<_>>()];
    for _ in 0..3 {
        let mut next = releases[releases.len() - 1].clone();
        match random.below(4) {
            0 => next.push(fresh(random)),
            1 if next.len() > 1 => {
                let index = random.below(next.len() as u64);
                next.remove(usize::try_from(index).unwrap_or(0));
            }
            // Restores the declarations of the first release.
            2 => next.clone_from(&releases[0]),
            _ => {
                next = next.iter().map(|plan| plan.changed(start_point, random)).collect();
            }
        }
        releases.push(next);
    }
    releases
}

/// Draws handler options.
pub(crate) fn draw_handler_options(random: &mut Random) -> HandlerOptions {
    let handler_options = HandlerOptions {
        retry: Some(draw_retry(random, 5)),
        timeout: random.percent(30).then(|| random.seconds(5, 150)),
        on_timeout: Some(if random.percent(70) { OnTimeout::Retry } else { OnTimeout::Fail }),
        rescue: Some(if random.percent(70) { Rescue::AtOnce } else { Rescue::AsFailure }),
        crashes_max: Some(u32::try_from(random.between(0, 4)).unwrap_or(1)),
        snoozes_max: Some(u32::try_from(random.between(0, 3)).unwrap_or(1)),
        recording: Some(if random.percent(90) { Recording::All } else { Recording::Failures }),
        expires_after: None,
        lock_duration: None,
        when_interrupted: random.percent(15).then_some(WhenInterrupted::Lost),
    };
    // Half of them use the retry policy of the outer layer.
    HandlerOptions {
        retry: handler_options.retry.filter(|_| random.percent(50)),
        ..handler_options
    }
}

fn draw_retry(random: &mut Random, retries_max: u64) -> Retry {
    let waits = random.between(0, retries_max);
    let waits: Vec<Duration> = (0..waits).map(|_| random.seconds(1, 60)).collect();
    if waits.is_empty() { Retry::none() } else { Retry::intervals(waits) }
}

fn draw_when(start_point: &StartPoint, random: &mut Random) -> PlannedSchedule {
    match random.below(10) {
        0 => PlannedSchedule::Once(
            start_point.start
                + SignedDuration::from_secs(i64::try_from(random.between(60, 7_200)).unwrap_or(60)),
        ),
        1..=3 => PlannedSchedule::Every(random.seconds(30, 1_200), random.percent(50)),
        4 => PlannedSchedule::Every(Duration::from_secs(60), false),
        _ => {
            let zone = if random.percent(75) { start_point.zone } else { random.pick(&CHANGES).0 };
            PlannedSchedule::Cron(random.pick::<&str>(&CRONS), zone)
        }
    }
}

fn draw_misfire(random: &mut Random) -> Misfire {
    let mut misfire = match random.below(5) {
        0 => Misfire::default(),
        index => Misfire::from(MisfirePolicy::ALL[usize::try_from(index - 1).unwrap_or(0)]),
    };
    if random.percent(60) {
        misfire = misfire.threshold(random.seconds(0, 120));
    }
    if random.percent(25) {
        misfire = misfire.window(random.seconds(60, 7_200));
    }
    if random.percent(60) {
        misfire = misfire.catch_up_max(u32::try_from(random.between(1, 12)).unwrap_or(1));
    }
    misfire
}

fn draw_overlap(random: &mut Random) -> Overlap {
    match random.below(6) {
        0 | 1 => Overlap::Skip,
        2 => Overlap::QueueOne,
        3 => Overlap::Allow { parallel_max: None },
        4 => {
            Overlap::Allow { parallel_max: Some(u32::try_from(random.between(1, 3)).unwrap_or(1)) }
        }
        _ => Overlap::CancelRunning,
    }
}
