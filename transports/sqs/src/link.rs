//! The way to SQS: one client for calls, which tries again a few times, and one for polls, which wait
//! long and do not. Every call has a bound.

use std::sync::Arc;
use std::time::Duration;

use aws_config::BehaviorVersion;
use aws_config::retry::RetryConfig;
use aws_config::stalled_stream_protection::StalledStreamProtectionConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::{
    Builder, Credentials, Region, SharedCredentialsProvider, SharedHttpClient,
};
use aws_smithy_http_client::tls;

use crate::address::Address;

/// A call is made so often before it fails.
const TRIES: u32 = 3;
const FIRST_REST: Duration = Duration::from_millis(100);

/// The clients of one endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    /// For everything but waiting for messages.
    pub(crate) calls: Client,
    /// For waiting for messages.
    pub(crate) polls: Client,
    /// Where it goes, for people.
    pub(crate) place: Arc<str>,
}

impl Link {
    /// A way to an address. Nothing is sent yet, but the environment may be asked for credentials.
    pub(crate) async fn new(address: &Address, timeout: Duration, wait: Duration) -> Self {
        let mut loader = aws_config::defaults(BehaviorVersion::latest())
            .http_client(http_client(address))
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
        if let Some(region) = &address.region {
            loader = loader.region(Region::new(region.clone()));
        }
        if let Some(endpoint) = &address.endpoint {
            loader = loader.endpoint_url(endpoint);
        }
        if let Some((key, secret)) = &address.credentials {
            let credentials = Credentials::new(key, secret, None, None, "address");
            loader = loader.credentials_provider(SharedCredentialsProvider::new(credentials));
        }
        let shared = loader.load().await;
        let tries =
            RetryConfig::standard().with_max_attempts(TRIES).with_initial_backoff(FIRST_REST);
        let calls = Builder::from(&shared).retry_config(tries).timeout_config(bounds(timeout));
        let polls = Builder::from(&shared)
            .retry_config(RetryConfig::disabled())
            .timeout_config(bounds(timeout.saturating_add(wait)));
        Self {
            calls: Client::from_conf(calls.build()),
            polls: Client::from_conf(polls.build()),
            place: Arc::from(address.place.as_str()),
        }
    }
}

fn bounds(timeout: Duration) -> TimeoutConfig {
    TimeoutConfig::builder().connect_timeout(timeout).operation_attempt_timeout(timeout).build()
}

fn http_client(address: &Address) -> SharedHttpClient {
    let builder = aws_smithy_http_client::Builder::new();
    if address.is_plain() {
        return builder.build_http();
    }
    let provider = tls::Provider::Rustls(tls::rustls_provider::CryptoMode::Ring);
    builder.tls_provider(provider).build_https()
}
