//! Rates: repeated measurements with their median, and ratios of two of them.

use crate::figure::{Figure, percentile};

/// Number of runs of each measurement; the raw side and ours alternate.
pub(crate) const REPETITIONS: usize = 3;
/// Body of each message: a hundred bytes of JSON.
pub(crate) const BODY: [u8; 100] = {
    let mut text = [b'x'; 100];
    text[0] = b'"';
    text[99] = b'"';
    text
};

/// Rates of all runs of one measurement, sorted.
#[derive(Default)]
pub(crate) struct Rates(Vec<f64>);

impl Rates {
    pub(crate) fn push(&mut self, rate: f64) {
        self.0.push(rate);
        self.0.sort_by(f64::total_cmp);
    }

    pub(crate) fn median(&self) -> f64 {
        percentile(&self.0, 50)
    }

    pub(crate) fn figure(&self, name: &str, how: &str) -> Figure {
        let how = format!(
            "{how}; median of {} runs from {:.0} to {:.0}",
            self.0.len(),
            percentile(&self.0, 0),
            percentile(&self.0, 100)
        );
        let (name, unit, target) = (name.to_owned(), "messages/s", "");
        Figure { name, value: self.median(), unit, target, how }
    }
}

/// Returns the ratio of two median rates, in percent.
pub(crate) fn ratio(name: &str, ours: &Rates, raw: &Rates, target: &'static str) -> Figure {
    Figure {
        name: name.to_owned(),
        value: 100.0 * ours.median() / raw.median(),
        unit: "%",
        target,
        how: format!("{:.0} of {:.0} messages/s, medians", ours.median(), raw.median()),
    }
}

/// Converts a count; exact, since counts are far below the 52 bits of a mantissa.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn float(count: usize) -> f64 {
    count as f64
}
