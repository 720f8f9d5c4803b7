//! Figure: counts and distributions of one span of time, and gauges at its end, in a compact form for storage.

use std::collections::BTreeMap;

use punctual::Events;
use punctual::measure::{BOUNDS_MS, Histogram};

/// Number of buckets of a distribution.
pub(crate) const BUCKETS: usize = BOUNDS_MS.len() + 1;
/// Number of counters.
const COUNTS: usize = 5;
/// Number of gauges.
const GAUGES: usize = 7;
/// Number of numbers of a packed figure.
const PACKED_LEN: usize = 1 + COUNTS + GAUGES + 2 * BUCKETS;

/// Counters, by index.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Count {
    Published,
    Succeeded,
    Failed,
    Dead,
    Relayed,
}

/// The events of each counter, in the order of [`Count`].
const COUNTED: [&[&str]; COUNTS] = [
    &["message.enqueued"],
    &["attempt.succeeded"],
    &["attempt.failed", "attempt.timed_out", "attempt.lost"],
    &["message.dead"],
    &["message.relayed"],
];

/// Gauges, by index. All but the last two are the same on every node.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Gauge {
    Pending,
    Running,
    DeadLetters,
    Outbox,
    OldestAgeMs,
    RunningHere,
    CapacityHere,
}

/// The figures of a span of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figure {
    /// Start of the span, in seconds since the epoch.
    pub(crate) at: i64,
    pub(crate) counts: [u64; COUNTS],
    /// The highest value within the span.
    pub(crate) gauges: [u64; GAUGES],
    /// How long after its due time each attempt began.
    pub(crate) wait: [u64; BUCKETS],
    /// How long attempts took.
    pub(crate) run: [u64; BUCKETS],
}

impl Figure {
    /// Returns the totals of a process since its start.
    pub(crate) fn totals(events: &Events) -> Self {
        let counted: BTreeMap<&str, u64> = events.counts().collect();
        let mut figure = Self::default();
        for (count, names) in figure.counts.iter_mut().zip(COUNTED) {
            *count = names.iter().filter_map(|name| counted.get(name)).sum();
        }
        for measures in events.measures().values() {
            add(&mut figure.wait, &measures.late);
            add(&mut figure.run, &measures.succeeded);
            add(&mut figure.run, &measures.unsuccessful);
        }
        figure
    }

    /// Returns the difference to earlier totals.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let mut figure = self.clone();
        let pairs = figure.counts.iter_mut().zip(&earlier.counts);
        let pairs = pairs.chain(figure.wait.iter_mut().zip(&earlier.wait));
        for (now, before) in pairs.chain(figure.run.iter_mut().zip(&earlier.run)) {
            *now = now.saturating_sub(*before);
        }
        figure
    }

    /// Adds another span of the same process, or the same span of another process.
    pub(crate) fn merge(&mut self, other: &Self, is_other_process: bool) {
        let pairs = self.counts.iter_mut().zip(&other.counts);
        let pairs = pairs.chain(self.wait.iter_mut().zip(&other.wait));
        for (ours, theirs) in pairs.chain(self.run.iter_mut().zip(&other.run)) {
            *ours = ours.saturating_add(*theirs);
        }
        for (place, (ours, theirs)) in self.gauges.iter_mut().zip(other.gauges).enumerate() {
            let adds = is_other_process && place >= Gauge::RunningHere as usize;
            *ours = if adds { ours.saturating_add(theirs) } else { theirs.max(*ours) };
        }
    }

    pub(crate) fn count(&self, count: Count) -> u64 {
        self.counts[count as usize]
    }

    pub(crate) fn gauge(&self, gauge: Gauge) -> u64 {
        self.gauges[gauge as usize]
    }

    pub(crate) fn set(&mut self, gauge: Gauge, value: u64) {
        self.gauges[gauge as usize] = value;
    }

    /// Returns the figure as a list of numbers.
    pub(crate) fn pack(&self) -> Vec<i64> {
        let numbers = self.counts.iter().chain(&self.gauges).chain(&self.wait).chain(&self.run);
        let numbers = numbers.map(|number| i64::try_from(*number).unwrap_or(i64::MAX));
        std::iter::once(self.at).chain(numbers).collect()
    }

    /// Reads a figure from a list of numbers; none when another version wrote it.
    pub(crate) fn unpack(numbers: &[i64]) -> Option<Self> {
        if numbers.len() != PACKED_LEN {
            return None;
        }
        let mut figure = Self { at: numbers[0], ..Self::default() };
        let mut rest = numbers[1..].iter().map(|number| u64::try_from(*number).unwrap_or(0));
        let places = figure.counts.iter_mut().chain(&mut figure.gauges);
        for (place, number) in places.chain(&mut figure.wait).chain(&mut figure.run).zip(&mut rest)
        {
            *place = number;
        }
        Some(figure)
    }
}

fn add(buckets: &mut [u64; BUCKETS], histogram: &Histogram) {
    for (bucket, count) in buckets.iter_mut().zip(histogram.buckets) {
        *bucket += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure() -> Figure {
        let mut figure = Figure { at: 60, ..Figure::default() };
        figure.counts[Count::Failed as usize] = 3;
        figure.set(Gauge::RunningHere, 4);
        figure.set(Gauge::Pending, 9);
        figure.run[BUCKETS - 1] = 7;
        figure
    }

    #[test]
    fn a_packed_figure_is_restored() {
        assert_eq!(Figure::unpack(&figure().pack()), Some(figure()));
        assert_eq!(Figure::unpack(&figure().pack()[1..]), None);
    }

    #[test]
    fn counts_add_up_and_gauges_are_the_highest() {
        let mut sum = figure();
        sum.merge(&figure(), true);
        assert_eq!((sum.count(Count::Failed), sum.gauge(Gauge::Pending)), (6, 9));
        assert_eq!((sum.gauge(Gauge::RunningHere), sum.run[BUCKETS - 1]), (8, 14));
        let mut later = figure();
        later.merge(&figure(), false);
        assert_eq!(later.gauge(Gauge::RunningHere), 4);
        assert_eq!(later.since(&figure()).count(Count::Failed), 3);
    }
}
