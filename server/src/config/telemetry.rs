//! The section `[telemetry]`: export of traces and metrics.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::spec::Secret;

/// Settings of the export of traces and metrics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TelemetryConfig {
    /// The address of an OTLP/HTTP collector, such as `http://127.0.0.1:4318`; nothing is sent without it.
    pub otlp: Option<String>,
    /// Headers of every request to the collector, such as a token.
    pub headers: BTreeMap<String, Secret>,
    /// The service name.
    pub service_name: String,
}

impl Default for TelemetryConfig {
    fn default() -> Self {
        Self { otlp: None, headers: BTreeMap::new(), service_name: "punctual".to_owned() }
    }
}

impl TelemetryConfig {
    /// Returns the problem of the address, if any.
    pub(super) fn problem(&self) -> Option<String> {
        let text = self.otlp.as_deref()?;
        if cfg!(not(feature = "otlp")) {
            return Some(
                "this program was built without the cargo feature `otlp`; build it with `--features otlp`, or leave this out and scrape /metrics"
                    .to_owned(),
            );
        }
        let url = url::Url::parse(text).ok().filter(|url| {
            matches!(url.scheme(), "http" | "https") && url.has_host() && url.query().is_none()
        });
        match url {
            None => Some(
                "it must be an http or https URL, such as \"http://127.0.0.1:4318\"".to_owned(),
            ),
            Some(url) if !url.username().is_empty() || url.password().is_some() => Some(
                "a URL with a password would appear in logs; put the credentials in telemetry.headers".to_owned(),
            ),
            Some(_) => None,
        }
    }
}
