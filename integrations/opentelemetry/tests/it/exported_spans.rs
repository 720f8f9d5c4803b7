//! Exported spans, by name.

use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracer, SdkTracerProvider, SpanData};

/// A provider that exports into memory immediately.
pub(crate) struct ExportedSpans {
    exporter: InMemorySpanExporter,
    provider: SdkTracerProvider,
}

impl ExportedSpans {
    pub(crate) fn new() -> Self {
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
        Self { exporter, provider }
    }

    pub(crate) fn tracer(&self) -> SdkTracer {
        self.provider.tracer("test")
    }

    /// Returns every span of a name, in the order of their ends.
    pub(crate) fn all(&self, name: &str) -> Vec<SpanData> {
        let spans = self.exporter.get_finished_spans().unwrap();
        spans.into_iter().filter(|span| span.name == name).collect()
    }

    /// Returns the only span of a name.
    pub(crate) fn one(&self, name: &str) -> SpanData {
        let mut spans = self.all(name);
        assert_eq!(spans.len(), 1, "spans {name:?}");
        spans.remove(0)
    }
}

/// Returns an attribute as text; an empty text without.
pub(crate) fn attribute(span: &SpanData, name: &str) -> String {
    let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == name);
    found.map(|attribute| attribute.value.to_string()).unwrap_or_default()
}
