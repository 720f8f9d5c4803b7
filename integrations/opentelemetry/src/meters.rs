//! Meters: every event and attempt as instruments of a meter.

use std::collections::BTreeMap;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter};
use punctual::Event;
use punctual::measure::{BOUNDS_MS, LabelNames, METERS, MeterAmount, MeterKind, readings};

/// Returns a hook for [`Builder::on_event`](punctual::Builder::on_event) that counts and measures on a meter,
/// under the names of [`METERS`]. Histograms are in seconds and have the library's own bounds; only the
/// first 200 topics are labels of their own.
pub fn meters(meter: &Meter) -> impl Fn(&Event) + Send + Sync + 'static {
    let instruments = Instruments::on(meter);
    let names = LabelNames::default();
    move |event| {
        readings(event, &names, &mut |reading| {
            let attribute =
                |(name, value): &(&'static str, &str)| KeyValue::new(*name, (*value).to_owned());
            let attributes: Vec<KeyValue> = reading.labels.iter().map(attribute).collect();
            instruments.add(reading.meter.name, reading.amount, &attributes);
        });
    }
}

struct Instruments {
    counters: BTreeMap<&'static str, Counter<u64>>,
    histograms: BTreeMap<&'static str, Histogram<f64>>,
}

impl Instruments {
    fn on(meter: &Meter) -> Self {
        let mut instruments = Self { counters: BTreeMap::new(), histograms: BTreeMap::new() };
        // The bounds are whole milliseconds of at most an hour, precise enough in a float.
        let bounds: Vec<f64> = BOUNDS_MS
            .iter()
            .map(|bound| std::time::Duration::from_millis(*bound).as_secs_f64())
            .collect();
        for known in METERS {
            let about = known.meaning.trim();
            match known.kind {
                MeterKind::Counter => {
                    let counter = meter.u64_counter(known.name).with_description(about).build();
                    instruments.counters.insert(known.name, counter);
                }
                MeterKind::Histogram => {
                    let histogram = meter.f64_histogram(known.name).with_description(about);
                    let histogram = histogram.with_unit("s").with_boundaries(bounds.clone());
                    instruments.histograms.insert(known.name, histogram.build());
                }
            }
        }
        instruments
    }

    fn add(&self, name: &str, amount: MeterAmount, attributes: &[KeyValue]) {
        match amount {
            MeterAmount::Count(count) => {
                if let Some(counter) = self.counters.get(name) {
                    counter.add(count, attributes);
                }
            }
            MeterAmount::Seconds(seconds) => {
                if let Some(histogram) = self.histograms.get(name) {
                    histogram.record(seconds, attributes);
                }
            }
        }
    }
}
