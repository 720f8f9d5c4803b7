//! `punctual publish`: one message through a transport.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use punctual::Punctual;
use punctual::model::{Body, CONTENT_TYPE_UNKNOWN};
use punctual::schedule::parse_duration;
use punctual_connect::OpenedTransport;

use super::carried::{BODY_MAX, TransportArgs};
use super::given::bytes;
use super::storage::on_runtime;
use crate::terminal::tell;

/// What to send.
#[derive(Debug, Args)]
pub(crate) struct PublishArgs {
    #[command(flatten)]
    transport: TransportArgs,
    /// The topic.
    topic: String,
    /// The body: a text, `@path` for a file, or `-` for standard input. What is JSON is sent as JSON,
    /// other text as text/plain.
    #[arg(value_name = "BODY|@FILE|-")]
    body: String,
    /// A header; may be given more than once.
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = pair)]
    headers: Vec<(String, String)>,
    /// What the message is about.
    #[arg(long)]
    key: Option<String>,
    /// Not before this much later, such as 5s or 2h.
    #[arg(long, value_name = "LENGTH", value_parser = parse_duration)]
    delay: Option<Duration>,
    /// Only for this group; without it every group gets a copy.
    #[arg(long)]
    group: Option<String>,
    /// What the body is, as a media type.
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// Answer as JSON.
    #[arg(long)]
    json: bool,
}

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
    if !opened.transport.capabilities().publish_delay.reaches(delay) {
        bail!(
            "this transport cannot delay by {delay:?} itself; leave --delay out, or publish from an application with a storage"
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
        let answer = serde_json::json!({ "id": published.id, "topic": arguments.topic });
        writeln!(out, "{answer}")?;
    } else {
        writeln!(out, "{}", published.id)?;
        tell(&format!("Published to {:?}.", arguments.topic));
    }
    Ok(())
}

fn body(arguments: &PublishArgs) -> Result<Body> {
    let bytes = bytes(&arguments.body, "the body")?;
    let content_type = match &arguments.content_type {
        Some(named) => named.clone(),
        None if serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_ok() => {
            "application/json".to_owned()
        }
        None if std::str::from_utf8(&bytes).is_ok() => "text/plain".to_owned(),
        None => CONTENT_TYPE_UNKNOWN.to_owned(),
    };
    Ok(Body::raw(bytes, content_type))
}
