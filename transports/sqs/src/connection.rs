//! Connection to SQS: one client for calls, which retries a few times, and one for polls, which wait long and do
//! not retry. Every call has a timeout.

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

/// Attempts of a call before it fails.
const ATTEMPTS_MAX: u32 = 3;
const BACKOFF_INITIAL: Duration = Duration::from_millis(100);

/// Clients of one endpoint.
#[derive(Clone, Debug)]
pub(crate) struct BrokerConnection {
    /// Client for everything except polls.
    pub(crate) calls: Client,
    /// Client for polls.
    pub(crate) polls: Client,
    /// Endpoint for messages.
    pub(crate) endpoint: Arc<str>,
}

impl BrokerConnection {
    /// Creates the clients. Nothing is sent yet, but the environment may be read for credentials.
    pub(crate) async fn new(address: &Address, timeout: Duration, poll_timeout: Duration) -> Self {
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
        let tries = RetryConfig::standard()
            .with_max_attempts(ATTEMPTS_MAX)
            .with_initial_backoff(BACKOFF_INITIAL);
        let calls = Builder::from(&shared).retry_config(tries).timeout_config(timeouts(timeout));
        let polls = Builder::from(&shared)
            .retry_config(RetryConfig::disabled())
            .timeout_config(timeouts(timeout.saturating_add(poll_timeout)));
        Self {
            calls: Client::from_conf(calls.build()),
            polls: Client::from_conf(polls.build()),
            endpoint: Arc::from(address.display.as_str()),
        }
    }
}

fn timeouts(timeout: Duration) -> TimeoutConfig {
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
