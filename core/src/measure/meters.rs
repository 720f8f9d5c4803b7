//! Meters: the readings that each event adds, one list for every exporter, so that all of them count the same
//! under the same names. It depends on no monitoring product.

use crate::event::Event;
use crate::measure::LabelNames;
use crate::model::JobName;

/// A number that an exporter keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meter {
    /// Its name, with dots.
    pub name: &'static str,
    /// Its name where dots are not allowed, with the unit last.
    pub flat_name: &'static str,
    /// Whether it counts or measures durations.
    pub kind: MeterKind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// Its description.
    pub meaning: &'static str,
}

/// How a meter treats its readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeterKind {
    /// Adds them up.
    Counter,
    /// Keeps their distribution, in seconds.
    Histogram,
}

/// One addition to a meter.
#[derive(Clone, Copy, Debug)]
pub struct MeterReading<'e> {
    /// The meter.
    pub meter: &'static Meter,
    /// The added amount.
    pub amount: MeterAmount,
    /// The values of the meter's labels, in their order.
    pub labels: &'e [(&'static str, &'e str)],
}

/// How much a reading adds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MeterAmount {
    /// Increment of a counter.
    Count(u64),
    /// Duration in seconds, for a histogram.
    Seconds(f64),
}

macro_rules! meters {
    ($($(#[doc = $meaning:literal])+ $constant:ident, $name:literal, $flat:literal, $kind:ident [$($label:literal),*];)*) => {
        $($(#[doc = $meaning])+
        const $constant: Meter = Meter {
            name: $name,
            flat_name: $flat,
            kind: MeterKind::$kind,
            labels: &[$($label),*],
            meaning: concat!($($meaning),+),
        };)*

        /// Every meter.
        pub const METERS: &[Meter] = &[$($constant),*];
    };
}

meters! {
    /// Number of events, by name.
    EVENTS, "punctual.events", "punctual_events_total", Counter ["event"];
    /// Ended attempts, by ending.
    ATTEMPTS, "punctual.attempts", "punctual_attempts_total", Counter ["topic", "ending"];
    /// Duration of attempts.
    DURATION, "punctual.attempt.duration", "punctual_attempt_duration_seconds", Histogram ["topic", "ending"];
    /// Delay between the due time of a message and the start of its attempt.
    LATENESS, "punctual.attempt.lateness", "punctual_attempt_lateness_seconds", Histogram ["topic"];
    /// Messages that became dead letters.
    DEAD, "punctual.messages.dead", "punctual_messages_dead_total", Counter ["topic", "reason"];
    /// Messages of lost processes that were rescued.
    RESCUED, "punctual.leases.rescued", "punctual_leases_rescued_total", Counter [];
    /// Missed occurrences of jobs.
    MISSED, "punctual.occurrences.missed", "punctual_occurrences_missed_total", Counter [];
    /// Skipped occurrences of jobs, by reason.
    SKIPPED, "punctual.occurrences.skipped", "punctual_occurrences_skipped_total", Counter ["reason"];
    /// Ended runs of jobs, by result; an attempt that is retried does not end the run.
    JOB_RUNS, "punctual.job.runs", "punctual_job_runs_total", Counter ["job_name", "result"];
}

/// Passes each reading of an event to a function.
pub fn readings(event: &Event, names: &LabelNames, record: &mut dyn FnMut(MeterReading<'_>)) {
    count(&EVENTS, 1, &[("event", event.name())], record);
    match event {
        Event::AttemptStarted { topic, late, .. } => {
            let labels = &[("topic", names.topic(topic))];
            let amount = MeterAmount::Seconds(late.as_secs_f64());
            record(MeterReading { meter: &LATENESS, amount, labels });
        }
        Event::MessageDead { topic, reason, .. } => {
            let labels = &[("topic", names.topic(topic)), ("reason", reason.as_str())];
            count(&DEAD, 1, labels, record);
        }
        Event::LeasesRescued { count: freed } => count(&RESCUED, *freed, &[], record),
        Event::JobMisfired { missed, .. } => count(&MISSED, *missed, &[], record),
        Event::JobSkipped { count: left_out, reason, .. } => {
            count(&SKIPPED, *left_out, &[("reason", reason.as_str())], record);
        }
        _ => {}
    }
    // The duration of a lost attempt is not known.
    if let Event::AttemptLost { topic, .. } = event {
        count(&ATTEMPTS, 1, &[("topic", names.topic(topic)), ("ending", "lost")], record);
    }
    if let Some((topic, ending, took)) = super::ending(event) {
        let labels = &[("topic", names.topic(topic)), ("ending", ending)];
        count(&ATTEMPTS, 1, labels, record);
        let amount = MeterAmount::Seconds(took.as_secs_f64());
        record(MeterReading { meter: &DURATION, amount, labels });
    }
    if let Some((job, result)) = run_end(event) {
        count(&JOB_RUNS, 1, &[("job_name", names.job(job)), ("result", result)], record);
    }
}

/// Returns job and result of a run that has ended; `None` for other events, and while the run is retried.
fn run_end(event: &Event) -> Option<(&JobName, &'static str)> {
    match event {
        Event::AttemptSucceeded { job: Some(job), .. } => Some((job, "succeeded")),
        Event::AttemptFailed { job: Some(job), ending, again_at: None, .. } => Some((job, ending)),
        Event::AttemptTimedOut { job: Some(job), again_at: None, .. } => Some((job, "timed_out")),
        Event::AttemptLost { job: Some(job), again_at: None, .. } => Some((job, "lost")),
        Event::AttemptEndedEarly { job: Some(job), ending: "cancelled", .. } => {
            Some((job, "cancelled"))
        }
        _ => None,
    }
}

fn count(
    meter: &'static Meter,
    amount: u64,
    labels: &[(&'static str, &str)],
    record: &mut dyn FnMut(MeterReading<'_>),
) {
    record(MeterReading { meter, amount: MeterAmount::Count(amount), labels });
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::{ExecutionId, IdSource, Ids, MessageId, SkipReason, Topic};
    use jiff::Timestamp;

    fn lines(event: &Event) -> Vec<String> {
        let (names, mut lines) = (LabelNames::default(), Vec::new());
        readings(event, &names, &mut |reading| {
            let labels: Vec<&str> = reading.labels.iter().map(|(name, _)| *name).collect();
            assert_eq!(labels, reading.meter.labels);
            let values: Vec<&str> = reading.labels.iter().map(|(_, value)| *value).collect();
            lines.push(format!("{} {} {:?}", reading.meter.name, values.join(","), reading.amount));
        });
        lines
    }

    #[test]
    fn every_event_counts_and_some_have_more_readings() {
        let skipped = Event::JobSkipped {
            job: crate::model::JobName::new("night").unwrap(),
            nominal: Timestamp::UNIX_EPOCH,
            count: 4,
            reason: SkipReason::Misfire,
        };
        assert_eq!(
            lines(&skipped),
            [
                "punctual.events job.skipped Count(1)",
                "punctual.occurrences.skipped misfire Count(4)"
            ]
        );
        assert_eq!(
            lines(&Event::ClockCorrected { ahead_ms: 2_000 }),
            ["punctual.events clock.corrected Count(1)"]
        );
    }

    // spec: C-5
    #[test]
    fn an_attempt_that_ended_is_counted_and_measured() {
        let id = Ids::seeded(1).next(Timestamp::UNIX_EPOCH);
        let event = Event::AttemptTimedOut {
            message: MessageId::from_uuid(id),
            execution: ExecutionId::from_uuid(id),
            topic: Topic::new("mail").unwrap(),
            job: None,
            nominal: None,
            attempt: 1,
            took: Duration::from_millis(1_500),
            again_at: None,
        };
        let expected = [
            "punctual.events attempt.timed_out Count(1)",
            "punctual.attempts mail,timed_out Count(1)",
            "punctual.attempt.duration mail,timed_out Seconds(1.5)",
        ];
        assert_eq!(lines(&event), expected);
    }

    #[test]
    fn a_run_of_a_job_is_counted_when_it_is_over() {
        let id = Ids::seeded(1).next(Timestamp::UNIX_EPOCH);
        let failed = |again_at| Event::AttemptFailed {
            message: MessageId::from_uuid(id),
            execution: ExecutionId::from_uuid(id),
            topic: Topic::new("mail").unwrap(),
            job: Some(JobName::new("night").unwrap()),
            nominal: None,
            attempt: 1,
            took: Duration::ZERO,
            ending: "failed",
            error: None,
            again_at,
        };
        let counted = |event: &Event| {
            lines(event)
                .into_iter()
                .filter(|line| line.starts_with("punctual.job"))
                .collect::<Vec<_>>()
        };
        assert!(counted(&failed(Some(Timestamp::UNIX_EPOCH))).is_empty(), "it is tried again");
        assert_eq!(counted(&failed(None)), ["punctual.job.runs night,failed Count(1)"]);
    }

    #[test]
    fn a_run_that_ended_with_its_process_is_counted_as_lost() {
        let id = Ids::seeded(1).next(Timestamp::UNIX_EPOCH);
        let lost = |again_at| Event::AttemptLost {
            message: MessageId::from_uuid(id),
            execution: ExecutionId::from_uuid(id),
            topic: Topic::new("mail").unwrap(),
            job: Some(JobName::new("night").unwrap()),
            nominal: None,
            attempt: 1,
            again_at,
        };
        let attempt =
            ["punctual.events attempt.lost Count(1)", "punctual.attempts mail,lost Count(1)"];
        assert_eq!(lines(&lost(Some(Timestamp::UNIX_EPOCH))), attempt, "it is run again");
        assert_eq!(lines(&lost(None))[..2], attempt);
        assert_eq!(lines(&lost(None))[2..], ["punctual.job.runs night,lost Count(1)"]);
    }

    // A label that Prometheus sets itself is scraped as `exported_..`, and `by (job)` then means the target.
    #[test]
    fn no_label_is_one_that_prometheus_sets_itself() {
        for meter in METERS {
            for label in ["job", "instance"] {
                assert!(!meter.labels.contains(&label), "{} has the label {label}", meter.name);
            }
        }
    }

    #[test]
    fn the_guide_names_every_meter() {
        let guide = include_str!("../../../docs/guide/telemetry.md");
        for meter in METERS {
            let labels: Vec<String> =
                meter.labels.iter().map(|label| format!("`{label}`")).collect();
            let row = format!(
                "| `{}` | `{}` | {} | {} |",
                meter.name,
                meter.flat_name,
                labels.join(", "),
                meter.meaning.trim()
            );
            assert!(guide.contains(&row), "the guide on telemetry lacks the row\n{row}");
        }
    }
}
