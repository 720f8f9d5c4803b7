//! Schedules as text: parsing, the canonical spelling, and a description in words.

use std::fmt;

use jiff::Timestamp;

use super::cron::Cron;
use super::duration::{format_duration, parse_duration};
use super::error::ScheduleError;
use super::schedule::{Rule, Schedule};
use super::zone::Zone;

/// Defaults for the parts that the text of a schedule may omit.
#[derive(Clone, Debug, Default)]
pub struct TextDefaults {
    /// The zone of a cron text; UTC by default.
    pub zone: Zone,
    /// Anchor of an interval; usually the time of creation.
    pub anchor: Timestamp,
    /// Seed of `H`; usually the name of the job. Without one `H` is refused.
    pub seed: Option<String>,
}

impl Schedule {
    /// Parses a schedule: a cron text, optionally followed by
    /// `in Zone/Name`; `every 5m` or `@every 5m`, optionally followed by
    /// `from` and an instant, `from last run`, or `from` an instant
    /// `or last run`; `at` or `once` and an instant.
    pub fn parse(text: &str, defaults: &TextDefaults) -> Result<Schedule, ScheduleError> {
        let text = text.trim_matches([' ', '\t']);
        if let Some(rest) = after_word(text, &["@every", "every"]) {
            let (every, from) = match rest.split_once(" from ") {
                Some((every, from)) => (every, Some(from.trim())),
                None => (rest, None),
            };
            let (first, follows) = match from.map(|from| (from, from.strip_suffix(" or last run")))
            {
                None => (None, false),
                Some(("last run", _)) => (None, true),
                Some((_, Some(first))) => (Some(first), true),
                Some((first, None)) => (Some(first), false),
            };
            let anchor = first.map_or(Ok(defaults.anchor), instant)?;
            let schedule = Schedule::every(parse_duration(every)?, anchor)?;
            return Ok(if follows { schedule.following_last_run() } else { schedule });
        }
        if let Some(rest) = after_word(text, &["once at", "once", "at"]) {
            return Ok(Schedule::once(instant(rest)?));
        }
        let (text, zone) = match text.rsplit_once(" in ") {
            Some((text, zone)) => (text, Zone::named(zone.trim())?),
            None => (text, defaults.zone.clone()),
        };
        let cron = match &defaults.seed {
            Some(seed) => Cron::parse_seeded(text, seed)?,
            None => Cron::parse(text)?,
        };
        Ok(Schedule::of_cron(cron, zone))
    }

    /// Returns the schedule in words.
    pub fn describe(&self) -> String {
        let mut words = match &self.rule {
            Rule::Cron { cron, zone } if zone.changes_clocks() => {
                let note = cron.clock_change_note();
                format!("{}, {zone} time; {note}", cron.describe())
            }
            Rule::Cron { cron, zone } => format!("{}, {zone} time", cron.describe()),
            Rule::Every(interval) => {
                let every = format_duration(interval.every());
                // The epoch is a default and not shown.
                let anchor = match interval.anchor() {
                    anchor if anchor == Timestamp::UNIX_EPOCH => String::new(),
                    anchor => format!(", counted from {anchor}"),
                };
                let restart =
                    if interval.follows_last_run() { ", restarted at each late run" } else { "" };
                format!("every {every}{anchor}{restart}")
            }
            Rule::Once(at) => format!("once, at {at}"),
        };
        let bounds = [
            self.start_at.map(|at| format!("; from {at}")),
            self.end_at.map(|at| format!("; until {at}")),
            self.runs_max.map(|runs| format!("; at most {runs} times")),
        ];
        let left_out =
            self.calendars.iter().map(|calendar| format!("; except in {}", calendar.name()));
        words.extend(bounds.into_iter().flatten().chain(left_out));
        words
    }
}

/// The canonical text of the rule, which [`Schedule::parse`] reads with the default anchor; bounds and
/// calendars are not part of it. An interval that counts from the epoch does not name it.
impl fmt::Display for Schedule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.rule {
            Rule::Cron { cron, zone } => write!(out, "{cron} in {zone}"),
            Rule::Every(interval) => {
                write!(out, "every {}", format_duration(interval.every()))?;
                let from = Some(interval.anchor()).filter(|at| *at != Timestamp::UNIX_EPOCH);
                match (from, interval.follows_last_run()) {
                    (None, false) => Ok(()),
                    (None, true) => write!(out, " from last run"),
                    (Some(at), false) => write!(out, " from {at}"),
                    (Some(at), true) => write!(out, " from {at} or last run"),
                }
            }
            Rule::Once(at) => write!(out, "at {at}"),
        }
    }
}

/// Returns the text after one of these leading words, in upper or lower case.
fn after_word<'t>(text: &'t str, words: &[&str]) -> Option<&'t str> {
    words.iter().find_map(|word| {
        let (start, rest) = text.split_at_checked(word.len())?;
        (start.eq_ignore_ascii_case(word) && rest.starts_with([' ', '\t'])).then(|| rest.trim())
    })
}

fn instant(text: &str) -> Result<Timestamp, ScheduleError> {
    text.trim()
        .parse()
        .map_err(|_| ScheduleError::Instant { text: text.trim().chars().take(80).collect() })
}
