//! `punctual publish`: publishes a message directly to a transport.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use punctual::Punctual;
use punctual::model::{Body, CONTENT_TYPE_UNKNOWN};
use punctual::schedule::parse_duration;
use punctual_backends::OpenedTransport;

use super::input::bytes;
use super::storage::on_runtime;
use super::transport::{BODY_MAX, TransportArgs};
use crate::terminal::notice;

/// Transport and message.
#[derive(Debug, Args)]
pub(crate) struct PublishArgs {
    #[command(flatten)]
    transport: TransportArgs,
    /// Topic of the message.
    topic: String,
    /// Body: a text, `@path` for a file, or `-` for standard input. Valid JSON is sent as JSON, other text as
    /// text/plain.
    #[arg(value_name = "BODY|@FILE|-")]
    body: String,
    /// Header; may be repeated.
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = pair)]
    headers: Vec<(String, String)>,
    /// Key of the message, such as an order number.
    #[arg(long)]
    key: Option<String>,
    /// Delay until the message is due, such as 5s or 2h.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    delay: Option<Duration>,
    /// Deliver it only to this consumer group; default: every group gets a copy.
    #[arg(long)]
    group: Option<String>,
    /// Media type of the body.
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Parses `NAME=VALUE`.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err(format!("{text:?} has no \"=\"; write NAME=VALUE")),
    }
}

pub(crate) fn run(arguments: &PublishArgs) -> ExitCode {
    on_runtime(async {
        let body = body(arguments)?;
        let opened = arguments.transport.open().await?;
        let published = publish(arguments, body, &opened).await;
        opened.close().await?;
        published
    })
}

async fn publish(arguments: &PublishArgs, body: Body, opened: &OpenedTransport) -> Result<()> {
    let delay = arguments.delay.unwrap_or_default();
    if !opened.transport.capabilities().publish_delay.supports(delay) {
        bail!(
            "this transport cannot delay by {delay:?}; leave --delay out, or publish from an application with a storage"
        );
    }
    let builder = Punctual::builder().without_storage();
    let builder = builder.options(|options| options.payload_max = BODY_MAX);
    let punctual = builder.transport("cli", opened.transport.clone()).build()?;
    let mut publish = punctual.publisher().publish_body(&arguments.topic, body).via("cli");
    publish = publish.after(delay);
    for (name, value) in &arguments.headers {
        publish = publish.header(name, value);
    }
    if let Some(key) = &arguments.key {
        publish = publish.key(key);
    }
    if let Some(group) = &arguments.group {
        publish = publish.group(group);
    }
    let published = publish.await?;
    let mut out = io::stdout().lock();
    if arguments.json {
        let output = serde_json::json!({ "id": published.id, "topic": arguments.topic });
        writeln!(out, "{output}")?;
    } else {
        writeln!(out, "{}", published.id)?;
        notice(&format!("Published to {:?}.", arguments.topic));
    }
    Ok(())
}

fn body(arguments: &PublishArgs) -> Result<Body> {
    let bytes = bytes(&arguments.body, "the body")?;
    let content_type = match &arguments.content_type {
        Some(content_type) => content_type.clone(),
        None if serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_ok() => {
            "application/json".to_owned()
        }
        None if std::str::from_utf8(&bytes).is_ok() => "text/plain".to_owned(),
        None => CONTENT_TYPE_UNKNOWN.to_owned(),
    };
    Ok(Body::raw(bytes, content_type))
}
