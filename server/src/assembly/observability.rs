//! Observability: traces and metrics of a server, when the configuration and the build enable them.

use punctual::{Builder, Result};

use crate::app::App;
use crate::config::Config;

/// Exporter of traces and metrics, if enabled.
pub(super) struct Observability {
    #[cfg(feature = "otlp")]
    telemetry: Option<crate::telemetry::Telemetry>,
}

#[cfg(feature = "otlp")]
impl Observability {
    /// Creates the exporter that the configuration enables.
    pub(super) fn new(config: &Config) -> Result<Self> {
        Ok(Self { telemetry: crate::telemetry::Telemetry::new(config)? })
    }

    /// Registers the instrumentation of messages.
    pub(super) fn messages(&self, builder: Builder) -> Builder {
        match &self.telemetry {
            Some(telemetry) => telemetry.register(builder),
            None => builder,
        }
    }

    /// Enables spans of requests.
    pub(super) fn requests(&self, app: App) -> App {
        app.traced(self.telemetry.as_ref().map(crate::telemetry::Telemetry::tracer))
    }

    /// Flushes and shuts the exporter down.
    pub(super) async fn end(self) {
        if let Some(telemetry) = self.telemetry {
            telemetry.end().await;
        }
    }
}

/// No-op: a configuration that enables telemetry was refused before.
#[cfg(not(feature = "otlp"))]
#[allow(clippy::unused_self, clippy::unused_async, clippy::unnecessary_wraps)] // the same shape as above
impl Observability {
    pub(super) fn new(_: &Config) -> Result<Self> {
        Ok(Self {})
    }

    pub(super) fn messages(&self, builder: Builder) -> Builder {
        builder
    }

    pub(super) fn requests(&self, app: App) -> App {
        app
    }

    pub(super) async fn end(self) {}
}
