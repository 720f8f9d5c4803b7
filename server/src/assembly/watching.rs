//! What watches a server from outside, when the configuration asks for it and the program can do it.

use punctual::{Builder, Result};

use crate::app::App;
use crate::config::Config;

/// Sends traces and metrics, or nothing.
pub(super) struct Watching {
    #[cfg(feature = "otlp")]
    telemetry: Option<crate::telemetry::Telemetry>,
}

#[cfg(feature = "otlp")]
impl Watching {
    /// What a configuration asks for.
    pub(super) fn new(config: &Config) -> Result<Self> {
        Ok(Self { telemetry: crate::telemetry::Telemetry::new(config)? })
    }

    /// Watches messages.
    pub(super) fn messages(&self, builder: Builder) -> Builder {
        match &self.telemetry {
            Some(telemetry) => telemetry.register(builder),
            None => builder,
        }
    }

    /// Watches requests.
    pub(super) fn requests(&self, app: App) -> App {
        app.traced(self.telemetry.as_ref().map(crate::telemetry::Telemetry::tracer))
    }

    /// Sends what is left.
    pub(super) async fn end(self) {
        if let Some(telemetry) = self.telemetry {
            telemetry.end().await;
        }
    }
}

/// A configuration that asks for it was refused before.
#[cfg(not(feature = "otlp"))]
#[allow(clippy::unused_self, clippy::unused_async, clippy::unnecessary_wraps)] // the same shape as above
impl Watching {
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
