//! Ring buffers of the figures of this process: every second for ten minutes, and longer steps for as long as two
//! of their documents. Each buffer is bounded.

use std::collections::VecDeque;

use super::figure::Figure;

/// Steps in seconds, and how many figures of each are kept.
pub(crate) const STEPS: [(i64, usize); 4] = [(1, 600), (10, 360), (60, 240), (3_600, 340)];

/// Figures of one step, oldest first.
#[derive(Debug)]
struct RingBuffer {
    step: i64,
    capacity: usize,
    figures: VecDeque<Figure>,
}

/// Ring buffers of all steps.
#[derive(Debug)]
pub(crate) struct RingBuffers([RingBuffer; STEPS.len()]);

impl Default for RingBuffers {
    fn default() -> Self {
        Self(STEPS.map(|(step, capacity)| RingBuffer { step, capacity, figures: VecDeque::new() }))
    }
}

impl RingBuffers {
    /// Adds a figure of at most one second to every buffer.
    pub(crate) fn add(&mut self, figure: &Figure) {
        for buffer in &mut self.0 {
            let at = figure.at.div_euclid(buffer.step) * buffer.step;
            match buffer.figures.back_mut() {
                // After the clock was set back, figures are added to the open span.
                Some(last) if last.at >= at => last.merge(figure, false),
                _ => buffer.figures.push_back(Figure { at, ..figure.clone() }),
            }
            while buffer.figures.len() > buffer.capacity {
                buffer.figures.pop_front();
            }
        }
    }

    /// Returns the figures of a step that begin within a span.
    pub(crate) fn within(&self, step: i64, from: i64, to: i64) -> Vec<Figure> {
        let buffer = self.0.iter().find(|buffer| buffer.step == step);
        let figures = buffer.into_iter().flat_map(|buffer| &buffer.figures);
        figures.filter(|figure| figure.at >= from && figure.at < to).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_add_up_to_longer_steps_and_old_ones_are_dropped() {
        let mut buffers = RingBuffers::default();
        for at in 0..700 {
            let mut figure = Figure { at, ..Figure::default() };
            figure.counts[0] = 1;
            buffers.add(&figure);
        }
        let seconds = buffers.within(1, 0, 1_000);
        assert_eq!((seconds.len(), seconds[0].at), (600, 100));
        let tens = buffers.within(10, 20, 40);
        assert_eq!(
            tens.iter().map(|one| (one.at, one.counts[0])).collect::<Vec<_>>(),
            [(20, 10), (30, 10)]
        );
        assert_eq!(buffers.within(3_600, 0, 1).len(), 1);
    }

    #[test]
    fn a_clock_set_back_loses_no_figures() {
        let mut buffers = RingBuffers::default();
        for at in [100, 90, 101] {
            let mut figure = Figure { at, ..Figure::default() };
            figure.counts[0] = 1;
            buffers.add(&figure);
        }
        let counts: Vec<u64> = buffers.within(1, 0, 200).iter().map(|one| one.counts[0]).collect();
        assert_eq!(counts, [2, 1]);
    }
}
