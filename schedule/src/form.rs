//! Stored form of a schedule: a small JSON object that is readable,
//! checked in full when it is read back.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::calendar::Calendar;
use super::cron::Cron;
use super::duration::{format_duration, parse_duration};
use super::error::ScheduleError;
use super::interval::{Interval, whole_microseconds};
use super::schedule::{Rule, Schedule};
use super::zone::Zone;

/// Exactly one of `cron`, `every` and `once` is present.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ScheduleForm {
    #[serde(skip_serializing_if = "Option::is_none")]
    cron: Option<String>,
    /// The text with every `H` replaced by its value; absent without an `H`.
    #[serde(skip_serializing_if = "Option::is_none")]
    resolved: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    zone: Option<Zone>,
    #[serde(skip_serializing_if = "Option::is_none")]
    every: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    anchor: Option<Timestamp>,
    /// Whether a late run moves the anchor.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    follows_last_run: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    once: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    runs_max: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    excluding: Vec<Calendar>,
}

impl From<Schedule> for ScheduleForm {
    fn from(schedule: Schedule) -> ScheduleForm {
        let mut form = ScheduleForm {
            start_at: schedule.start_at,
            end_at: schedule.end_at,
            runs_max: schedule.runs_max,
            excluding: schedule.calendars,
            ..ScheduleForm::default()
        };
        match schedule.rule {
            Rule::Cron { cron, zone } => {
                form.resolved =
                    (cron.resolved() != cron.source()).then(|| cron.resolved().to_owned());
                form.cron = Some(cron.source().to_owned());
                form.zone = Some(zone);
            }
            Rule::Every(interval) => {
                form.every = Some(format_duration(interval.every()));
                form.anchor = Some(interval.anchor());
                form.follows_last_run = interval.follows_last_run();
            }
            Rule::Once(at) => form.once = Some(at),
        }
        form
    }
}

impl TryFrom<ScheduleForm> for Schedule {
    type Error = ScheduleError;

    fn try_from(form: ScheduleForm) -> Result<Schedule, ScheduleError> {
        let rule = match (form.cron, form.every, form.once) {
            (Some(source), None, None) => Rule::Cron {
                cron: match form.resolved {
                    Some(resolved) => Cron::restored(&source, &resolved)?,
                    None => Cron::parse(&source)?,
                },
                zone: form.zone.unwrap_or_default(),
            },
            (None, Some(every), None) => {
                let anchor = form.anchor.unwrap_or_default();
                let interval = Interval::new(parse_duration(&every)?, anchor)?;
                Rule::Every(if form.follows_last_run {
                    interval.following_last_run()
                } else {
                    interval
                })
            }
            (None, None, Some(at)) => Rule::Once(whole_microseconds(at)),
            (cron, every, once) => return Err(not_one(cron, every, once)),
        };
        let mut schedule = Schedule::of_rule(rule);
        schedule.runs_max = form.runs_max;
        schedule.calendars = form.excluding;
        if let Some(start_at) = form.start_at {
            schedule = schedule.starting(start_at)?;
        }
        match form.end_at {
            Some(end_at) => schedule.ending(end_at),
            None => Ok(schedule),
        }
    }
}

fn not_one(cron: Option<String>, every: Option<String>, once: Option<Timestamp>) -> ScheduleError {
    let once = once.map(|at| at.to_string());
    let given: Vec<String> = [cron, every, once].into_iter().flatten().collect();
    ScheduleError::Part {
        part: "schedule",
        text: given.join(", "),
        problem: "give exactly one of cron, every and once".to_owned(),
    }
}
