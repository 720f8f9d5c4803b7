//! The figures of this process in memory: every second for ten minutes, and coarser ones for as long as two
//! of their documents. Each ring has a bound.

use std::collections::VecDeque;

use super::figure::Figure;

/// The steps, in seconds, and how many of each are remembered.
pub(crate) const STEPS: [(i64, usize); 4] = [(1, 600), (10, 360), (60, 240), (3_600, 340)];

/// Figures of one step, the oldest first.
#[derive(Debug)]
struct Ring {
    step: i64,
    most: usize,
    figures: VecDeque<Figure>,
}

/// The figures of every step.
#[derive(Debug)]
pub(crate) struct Rings([Ring; STEPS.len()]);

impl Default for Rings {
    fn default() -> Self {
        Self(STEPS.map(|(step, most)| Ring { step, most, figures: VecDeque::new() }))
    }
}

impl Rings {
    /// Counts a span of at most a second in.
    pub(crate) fn add(&mut self, figure: &Figure) {
        for ring in &mut self.0 {
            let at = figure.at.div_euclid(ring.step) * ring.step;
            match ring.figures.back_mut() {
                // A clock that was set back goes on in the span that was open.
                Some(last) if last.at >= at => last.merge(figure, false),
                _ => ring.figures.push_back(Figure { at, ..figure.clone() }),
            }
            while ring.figures.len() > ring.most {
                ring.figures.pop_front();
            }
        }
    }

    /// The figures of a step that begin within a span.
    pub(crate) fn within(&self, step: i64, from: i64, to: i64) -> Vec<Figure> {
        let ring = self.0.iter().find(|ring| ring.step == step);
        let figures = ring.into_iter().flat_map(|ring| &ring.figures);
        figures.filter(|figure| figure.at >= from && figure.at < to).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_add_up_to_longer_steps_and_old_ones_go() {
        let mut rings = Rings::default();
        for at in 0..700 {
            let mut figure = Figure { at, ..Figure::default() };
            figure.counts[0] = 1;
            rings.add(&figure);
        }
        let seconds = rings.within(1, 0, 1_000);
        assert_eq!((seconds.len(), seconds[0].at), (600, 100));
        let tens = rings.within(10, 20, 40);
        assert_eq!(
            tens.iter().map(|one| (one.at, one.counts[0])).collect::<Vec<_>>(),
            [(20, 10), (30, 10)]
        );
        assert_eq!(rings.within(3_600, 0, 1).len(), 1);
    }

    #[test]
    fn a_clock_that_goes_back_loses_nothing() {
        let mut rings = Rings::default();
        for at in [100, 90, 101] {
            let mut figure = Figure { at, ..Figure::default() };
            figure.counts[0] = 1;
            rings.add(&figure);
        }
        let counts: Vec<u64> = rings.within(1, 0, 200).iter().map(|one| one.counts[0]).collect();
        assert_eq!(counts, [2, 1]);
    }
}
