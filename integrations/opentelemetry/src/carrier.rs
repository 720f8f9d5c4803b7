//! Trace carrier: the context of a trace in the headers of a message.

use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use punctual::model::Headers;

/// Writes the context into the headers, replacing an earlier one. A message with the largest number of
/// headers is sent without: telemetry must not make a publish fail.
pub(crate) fn inject(context: &Context, headers: &mut Headers) {
    TraceContextPropagator::new().inject_context(context, &mut HeaderInjector(headers));
}

/// Returns the context in the headers; an empty one without.
pub(crate) fn extract(headers: &Headers) -> Context {
    TraceContextPropagator::new().extract_with_context(&Context::new(), &HeaderExtractor(headers))
}

struct HeaderInjector<'h>(&'h mut Headers);

impl Injector for HeaderInjector<'_> {
    fn set(&mut self, name: &str, value: String) {
        if value.is_empty() {
            self.0.remove(name);
        } else {
            let _ = self.0.insert(name, value);
        }
    }
}

struct HeaderExtractor<'h>(&'h Headers);

impl Extractor for HeaderExtractor<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name)
    }

    fn keys(&self) -> Vec<&str> {
        self.0.iter().map(|(name, _)| name).collect()
    }
}
