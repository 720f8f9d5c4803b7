//! Measures of attempts per topic: number by ending, durations, and lateness.
//! Nothing is measured before the first snapshot is read, so a process without metrics only checks a flag.
//! Exporters read a snapshot, or what each event adds to which meter; nothing here depends on how
//! it is exported.

mod meters;

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::Duration;

use crate::event::Event;
use crate::model::{JobName, Topic};

pub use self::meters::{METERS, Meter, MeterAmount, MeterKind, MeterReading, readings};

/// The upper bounds of the buckets of a [`Histogram`], in milliseconds, each inclusive.
pub const BOUNDS_MS: [u64; 14] =
    [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 5_000, 30_000, 300_000, 3_600_000];
/// Largest number of topics measured separately; all further ones are measured as [`OTHER_TOPICS`].
const TOPICS_MAX: usize = 200;
/// The name under which topics beyond [`TOPICS_MAX`] are measured; no topic can have it.
const OTHER_TOPICS: &str = "~other";
/// Largest number of jobs measured separately; all further ones are measured as `~other`.
pub const JOBS_MAX: usize = 500;
/// The name under which jobs beyond [`JOBS_MAX`] are measured.
const OTHER_JOBS: &str = "~other";

/// Label names of topics and jobs in metrics: the first 200 topics and [`JOBS_MAX`] jobs by their names,
/// all further ones together. For exporters, whose memory must not grow with what others publish.
#[derive(Debug, Default)]
pub struct LabelNames {
    topics: KnownNames,
    jobs: KnownNames,
}

impl LabelNames {
    /// Returns the name under which a topic is measured.
    pub fn topic<'t>(&self, topic: &'t Topic) -> &'t str {
        if self.topics.knows(topic.as_str(), TOPICS_MAX) { topic.as_str() } else { OTHER_TOPICS }
    }

    /// Returns the name under which a job is measured.
    pub fn job<'j>(&self, job: &'j JobName) -> &'j str {
        if self.jobs.knows(job.as_str(), JOBS_MAX) { job.as_str() } else { OTHER_JOBS }
    }
}

/// The first names, up to a limit.
#[derive(Debug, Default)]
struct KnownNames(RwLock<HashSet<String>>);

impl KnownNames {
    /// Returns whether a name is among the first; adds it while there is room.
    fn knows(&self, name: &str, most: usize) -> bool {
        if self.0.read().unwrap_or_else(PoisonError::into_inner).contains(name) {
            return true;
        }
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() < most {
            known.insert(name.to_owned());
        }
        known.contains(name)
    }
}

/// Distribution of durations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Number of durations.
    pub count: u64,
    /// Their sum.
    pub sum: Duration,
    /// Number of durations in each bucket of [`BOUNDS_MS`], not cumulated; the last one has no upper bound.
    pub buckets: [u64; BOUNDS_MS.len() + 1],
}

impl Histogram {
    /// Counts a duration.
    pub fn record(&mut self, duration: Duration) {
        let bucket = BOUNDS_MS.iter().position(|bound| duration <= Duration::from_millis(*bound));
        self.buckets[bucket.unwrap_or(BOUNDS_MS.len())] += 1;
        self.count += 1;
        self.sum = self.sum.saturating_add(duration);
    }
}

/// Measures of a topic's attempts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicMeasures {
    /// Number of attempts by ending.
    pub endings: BTreeMap<&'static str, u64>,
    /// Durations of attempts that succeeded.
    pub succeeded: Histogram,
    /// Durations of all other attempts.
    pub unsuccessful: Histogram,
    /// Delay between the due time of an attempt and its start.
    pub late: Histogram,
}

/// Measures attempts from the first snapshot on.
#[derive(Debug, Default)]
pub(crate) struct Measures {
    is_enabled: AtomicBool,
    topics: Mutex<BTreeMap<String, TopicMeasures>>,
}

impl Measures {
    /// Turns measuring on, and returns the measures so far.
    pub(crate) fn snapshot(&self) -> BTreeMap<String, TopicMeasures> {
        self.is_enabled.store(true, Ordering::Relaxed);
        self.topics.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts an event when it is about an attempt and measuring is on.
    pub(crate) fn record(&self, event: &Event) {
        if !self.is_enabled.load(Ordering::Relaxed) {
            return;
        }
        if let Event::AttemptStarted { topic, late, .. } = event {
            self.change(topic, |measures| measures.late.record(*late));
        }
        if let Some((topic, ending, took)) = ending(event) {
            self.ended(topic, ending, took);
        }
    }

    fn ended(&self, topic: &Topic, ending: &'static str, took: Duration) {
        self.change(topic, |measures| {
            *measures.endings.entry(ending).or_default() += 1;
            match ending {
                "succeeded" => measures.succeeded.record(took),
                _ => measures.unsuccessful.record(took),
            }
        });
    }

    fn change(&self, topic: &Topic, change: impl FnOnce(&mut TopicMeasures)) {
        let mut topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(measures) = topics.get_mut(topic.as_str()) {
            return change(measures);
        }
        let name = if topics.len() < TOPICS_MAX { topic.as_str() } else { OTHER_TOPICS };
        change(topics.entry(name.to_owned()).or_default());
    }
}

/// Returns topic, ending and duration of an attempt that has ended; `None` for other events.
fn ending(event: &Event) -> Option<(&Topic, &'static str, Duration)> {
    match event {
        Event::AttemptSucceeded { topic, took, .. } => Some((topic, "succeeded", *took)),
        Event::AttemptTimedOut { topic, took, .. } => Some((topic, "timed_out", *took)),
        Event::AttemptFailed { topic, ending, took, .. }
        | Event::AttemptEndedEarly { topic, ending, took, .. } => Some((topic, ending, *took)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_have_inclusive_upper_bounds() {
        let mut histogram = Histogram::default();
        for duration in [0, 1, 2, 3, 10_000_000].map(Duration::from_millis) {
            histogram.record(duration);
        }
        assert_eq!(histogram.buckets[..3], [2, 1, 1]);
        assert_eq!(histogram.buckets[BOUNDS_MS.len()], 1);
        assert_eq!((histogram.count, histogram.sum.as_millis()), (5, 10_000_006));
    }

    #[test]
    fn names_beyond_the_bound_are_one_name() {
        let names = LabelNames::default();
        let topic = |number: usize| Topic::new(format!("topic-{number}")).unwrap();
        for number in 0..TOPICS_MAX {
            assert_eq!(names.topic(&topic(number)), format!("topic-{number}"));
        }
        assert_eq!(names.topic(&topic(TOPICS_MAX)), OTHER_TOPICS);
        assert_eq!(names.topic(&topic(0)), "topic-0", "known names stay known");
        let job = |number: usize| JobName::new(format!("job-{number}")).unwrap();
        for number in 0..JOBS_MAX {
            assert_eq!(names.job(&job(number)), format!("job-{number}"));
        }
        assert_eq!(names.job(&job(JOBS_MAX)), OTHER_JOBS);
    }

    #[test]
    fn topics_beyond_the_bound_are_measured_together() {
        let measures = Measures::default();
        for number in 0..TOPICS_MAX + 50 {
            let topic = Topic::new(format!("topic-{number}")).unwrap();
            measures.ended(&topic, "failed", Duration::from_millis(7));
        }
        let topics = measures.snapshot();
        assert_eq!(topics.len(), TOPICS_MAX + 1);
        assert_eq!(topics[OTHER_TOPICS].endings["failed"], 50);
        assert_eq!(topics["topic-3"].unsuccessful.count, 1);
    }
}
