//! Telemetry: traces and metrics by OTLP over HTTP. A request, the messages it publishes, their attempts, and the
//! calls of those are one trace. The export queue is bounded; spans beyond it are dropped, because telemetry must
//! not delay work.

mod client;

use std::collections::HashMap;
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::Response;
use opentelemetry::context::FutureExt as _;
use opentelemetry::metrics::MeterProvider as _;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::{
    SpanKind, Status, TraceContextExt as _, Tracer as _, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::{HeaderExtractor, HeaderInjector};
use opentelemetry_otlp::{
    MetricExporter, Protocol, SpanExporter, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SdkTracer, SdkTracerProvider,
};
use punctual::{Builder, Error, Result};
use punctual_opentelemetry::{SCOPE, Traces, meters};

use crate::app::App;
use crate::config::Config;
use crate::outgoing::OutgoingCalls;
use crate::targets::resolve;
use client::Client;

/// Timeout of an export, including retries.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Largest number of spans that wait for export.
const QUEUE_MAX: usize = 4_096;

/// Exporter of traces and metrics.
pub(crate) struct Telemetry {
    traces: SdkTracerProvider,
    meters: SdkMeterProvider,
}

impl Telemetry {
    /// Returns the exporter of a configuration; none when disabled. Needs a tokio runtime, on which it sends.
    pub(crate) fn new(config: &Config) -> Result<Option<Self>> {
        let outgoing = OutgoingCalls::load(&config.outgoing)?;
        let config = &config.telemetry;
        let Some(address) = &config.otlp else { return Ok(None) };
        let address = address.trim_end_matches('/');
        let client = Client::new(address, &outgoing)?;
        let mut headers = HashMap::new();
        for (name, secret) in &config.headers {
            headers.insert(name.clone(), resolve(secret)?);
        }
        let spans = SpanExporter::builder()
            .with_http()
            .with_http_client(client.clone())
            .with_headers(headers.clone())
            .with_endpoint(format!("{address}/v1/traces"))
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(TIMEOUT)
            .build()
            .map_err(unusable)?;
        let metrics = MetricExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_headers(headers)
            .with_endpoint(format!("{address}/v1/metrics"))
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(TIMEOUT)
            .build()
            .map_err(unusable)?;
        let resource = Resource::builder()
            .with_service_name(config.service_name.clone())
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let queue = BatchConfigBuilder::default().with_max_queue_size(QUEUE_MAX).build();
        let batches = BatchSpanProcessor::builder(spans).with_batch_config(queue).build();
        Ok(Some(Self {
            traces: SdkTracerProvider::builder()
                .with_span_processor(batches)
                .with_resource(resource.clone())
                .build(),
            meters: SdkMeterProvider::builder()
                .with_periodic_exporter(metrics)
                .with_resource(resource)
                .build(),
        }))
    }

    /// Registers the instrumentation of messages.
    pub(crate) fn register(&self, builder: Builder) -> Builder {
        builder.middleware(Traces::new(self.tracer())).on_event(meters(&self.meters.meter(SCOPE)))
    }

    pub(crate) fn tracer(&self) -> SdkTracer {
        self.traces.tracer(SCOPE)
    }

    /// Exports the remaining telemetry, within the timeout.
    pub(crate) async fn end(self) {
        let ended = tokio::task::spawn_blocking(move || {
            let traces = self.traces.shutdown_with_timeout(TIMEOUT);
            let meters = self.meters.shutdown_with_timeout(TIMEOUT);
            traces.and(meters)
        });
        if let Ok(Err(error)) = ended.await {
            tracing::warn!(%error, "not all telemetry was sent");
        }
    }
}

/// Records every request as a span, as a child of the span in its `traceparent` header.
pub(crate) async fn layer(State(app): State<App>, request: Request, next: Next) -> Response {
    let Some(tracer) = app.tracer() else { return next.run(request).await };
    let extractor = HeaderExtractor(request.headers());
    let parent = TraceContextPropagator::new().extract_with_context(&Context::new(), &extractor);
    let method = request.method().to_string();
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let route = route.unwrap_or_default();
    let span = tracer
        .span_builder(format!("{method} {route}"))
        .with_kind(SpanKind::Server)
        .with_attributes([
            KeyValue::new("http.request.method", method),
            KeyValue::new("http.route", route),
        ]);
    let context = parent.with_span(tracer.build_with_context(span, &parent));
    let response = next.run(request).with_context(context.clone()).await;
    let (span, status) = (context.span(), response.status());
    span.set_attribute(KeyValue::new("http.response.status_code", i64::from(status.as_u16())));
    if status.is_server_error() {
        span.set_status(Status::error(status.to_string()));
    }
    span.end();
    response
}

/// Adds the `traceparent` header of the current trace, if any.
pub(crate) fn inject(headers: &mut HeaderMap) {
    let context = Context::current();
    if context.span().span_context().is_valid() {
        TraceContextPropagator::new().inject_context(&context, &mut HeaderInjector(headers));
    }
}

fn unusable(error: opentelemetry_otlp::ExporterBuildError) -> Error {
    Error::invalid("telemetry.otlp is invalid; check the address and the variables OTEL_*")
        .caused_by(error)
}
