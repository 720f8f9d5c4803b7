//! The context of a trace in the headers of a message.

use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use punctual::model::Headers;

/// Writes the context down, in place of what was there. A message that has as many headers as it may is
/// sent without: telemetry must not fail what it watches.
pub(crate) fn inject(context: &Context, headers: &mut Headers) {
    TraceContextPropagator::new().inject_context(context, &mut Writing(headers));
}

/// The context that was written down, if any; without one that is empty.
pub(crate) fn extract(headers: &Headers) -> Context {
    TraceContextPropagator::new().extract_with_context(&Context::new(), &Reading(headers))
}

struct Writing<'h>(&'h mut Headers);

impl Injector for Writing<'_> {
    fn set(&mut self, name: &str, value: String) {
        if value.is_empty() {
            self.0.remove(name);
        } else {
            let _ = self.0.insert(name, value);
        }
    }
}

struct Reading<'h>(&'h Headers);

impl Extractor for Reading<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name)
    }

    fn keys(&self) -> Vec<&str> {
        self.0.iter().map(|(name, _)| name).collect()
    }
}
