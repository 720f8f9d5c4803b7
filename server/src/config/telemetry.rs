//! The section `[telemetry]`: where traces and metrics are sent.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::spec::Secret;

/// Where traces and metrics are sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TelemetryConfig {
    /// The address of a collector that takes OTLP over HTTP, such as `http://127.0.0.1:4318`; nothing is
    /// sent without one.
    pub otlp: Option<String>,
    /// What every call to it carries, such as a token.
    pub headers: BTreeMap<String, Secret>,
    /// What this server is called there.
    pub service_name: String,
}

impl Default for TelemetryConfig {
    fn default() -> Self {
        Self { otlp: None, headers: BTreeMap::new(), service_name: "punctual".to_owned() }
    }
}

impl TelemetryConfig {
    /// What is wrong with the address, when something is.
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
                "it must be a URL with http or https, such as \"http://127.0.0.1:4318\"".to_owned(),
            ),
            Some(url) if !url.username().is_empty() || url.password().is_some() => Some(
                "a URL with a password is shown too often; put it in telemetry.headers".to_owned(),
            ),
            Some(_) => None,
        }
    }
}
