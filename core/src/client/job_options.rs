//! Job options: bounds of the schedule, excluded calendars, and the requirement to report.

use jiff::Timestamp;

use super::JobBuilder;
use crate::error::{Error, Result};
use crate::schedule::{Calendar, Schedule, near_words};

/// Bounds of a schedule that is not known yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits {
    start: Option<Timestamp>,
    end: Option<Timestamp>,
    runs_max: Option<u64>,
    exclude: Vec<Exclusion>,
}

/// A calendar, or the name of a calendar of the builder.
#[derive(Clone, Debug)]
pub enum Exclusion {
    /// The calendar itself.
    Calendar(Calendar),
    /// The name of a calendar that was added with [`Builder::calendar`](crate::Builder::calendar).
    Named(String),
}

impl From<Calendar> for Exclusion {
    fn from(calendar: Calendar) -> Self {
        Self::Calendar(calendar)
    }
}

impl From<&str> for Exclusion {
    fn from(name: &str) -> Self {
        Self::Named(name.to_owned())
    }
}

impl From<String> for Exclusion {
    fn from(name: String) -> Self {
        Self::Named(name)
    }
}

impl JobBuilder {
    /// Sets the start of the schedule: no occurrence before an instant; the instant itself may be one.
    pub fn start(mut self, at: Timestamp) -> Self {
        self.limits.start = Some(at);
        self
    }

    /// Sets the end of the schedule: no occurrence at or after an instant.
    pub fn end(mut self, at: Timestamp) -> Self {
        self.limits.end = Some(at);
        self
    }

    /// Limits the number of runs, after which the job is finished.
    pub fn runs_max(mut self, runs: u64) -> Self {
        self.limits.runs_max = Some(runs);
        self
    }

    /// Excludes the occurrences in a calendar: the calendar itself, or the name of one that was added with
    /// [`Builder::calendar`](crate::Builder::calendar).
    pub fn exclude(mut self, calendar: impl Into<Exclusion>) -> Self {
        self.limits.exclude.push(calendar.into());
        self
    }

    /// Requires its handler to report: returning without
    /// [`Context::report_success`](crate::Context::report_success) or
    /// [`report_failure`](crate::Context::report_failure) is a failure. The requirement belongs to the handler
    /// that is registered with the job in this process, not to the stored definition.
    pub fn must_report(mut self) -> Self {
        self.must_report = true;
        self
    }

    /// Sets the source location of its declaration, for error messages. `#[job]` calls this.
    #[doc(hidden)]
    pub fn declared_at(mut self, place: &'static str) -> Self {
        self.place = Some(place);
        self
    }

    pub(crate) fn reports(&self) -> bool {
        self.must_report
    }

    pub(crate) fn place(&self) -> Option<&'static str> {
        self.place
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl Limits {
    /// Returns the schedule with these bounds; fails with the field that is wrong.
    pub(super) fn apply(self, schedule: Schedule, known: &[Calendar]) -> Result<Schedule> {
        let mut schedule = schedule;
        if let Some(start) = self.start {
            schedule = schedule.starting(start).map_err(|error| of_field("start", &error))?;
        }
        if let Some(end) = self.end {
            schedule = schedule.ending(end).map_err(|error| of_field("end", &error))?;
        }
        match self.runs_max {
            Some(0) => {
                return Err(Error::invalid("runs_max: 0 is out of range, use 1 or more"));
            }
            Some(runs) => schedule = schedule.at_most(runs),
            None => {}
        }
        for exclusion in self.exclude {
            let calendar = match exclusion {
                Exclusion::Calendar(calendar) => calendar,
                Exclusion::Named(name) => named(&name, known)?,
            };
            schedule = schedule.excluding(calendar);
        }
        Ok(schedule)
    }
}

fn of_field(field: &str, error: &dyn std::fmt::Display) -> Error {
    Error::invalid(format!("{field}: {error}"))
}

fn named(name: &str, known: &[Calendar]) -> Result<Calendar> {
    if let Some(calendar) = known.iter().find(|calendar| calendar.name() == name) {
        return Ok(calendar.clone());
    }
    let near = near_words(name, known.iter().map(Calendar::name));
    let hint = match near.as_slice() {
        [] => "give it to the builder with calendar()".to_owned(),
        near => format!("did you mean {}?", near.join(" or ")),
    };
    Err(Error::invalid(format!("exclude: there is no calendar {name:?}; {hint}")))
}
