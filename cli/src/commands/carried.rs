//! What commands that work on a transport share: its address, and how a message looks to people and to
//! programs.

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use clap::Args;
use punctual::model::Message;
use punctual_connect::{OpenedTransport, open_transport};
use serde_json::{Map, Value, json};

use super::storage::existing;
use crate::render::one_line;

/// The most bytes of one body, sent or shown.
pub(crate) const BODY_MAX: usize = 16 << 20;
/// The most characters of a body in a table.
const SHOWN_MAX: usize = 200;

/// Which transport.
#[derive(Debug, Args)]
pub(crate) struct TransportArgs {
    /// Where the transport is, such as `sqlite:path/to/file.db`; a wrong one is answered with what can be
    /// opened.
    #[arg(
        long = "transport",
        value_name = "ADDRESS",
        env = "PUNCTUAL_TRANSPORT",
        hide_env_values = true
    )]
    pub(crate) address: String,
}

impl TransportArgs {
    pub(crate) async fn open(&self) -> Result<OpenedTransport> {
        Ok(open_transport(&self.address).await?)
    }

    /// The same where nothing is to be made by looking at it.
    pub(crate) async fn open_existing(&self) -> Result<OpenedTransport> {
        if self.address.trim_start().to_ascii_lowercase().starts_with("sqlite:") {
            existing(&self.address)?;
        }
        self.open().await
    }
}

/// The head of the table of messages.
pub(crate) fn head() -> String {
    row("sent", "id", "attempt", "key", "body")
}

/// A message as a row of the table.
pub(crate) fn shown(message: &Message, attempt: u32, poison: Option<&str>) -> String {
    let body = match (poison, message.content(BODY_MAX)) {
        (Some(error), _) => format!("cannot be read: {error}"),
        (None, Err(error)) => format!("cannot be read: {error}"),
        (None, Ok(body)) => match std::str::from_utf8(&body.bytes) {
            Ok(text) => one_line(text, SHOWN_MAX),
            Err(_) => format!("{} bytes of {}", body.bytes.len(), body.content_type),
        },
    };
    let sent = message.created_at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let key = message
        .key
        .as_ref()
        .map_or_else(|| "-".to_owned(), |key| one_line(key.as_str(), SHOWN_MAX));
    row(&sent, &message.id.to_string(), &attempt.to_string(), &key, &body)
}

fn row(sent: &str, id: &str, attempt: &str, key: &str, body: &str) -> String {
    format!("{sent:20}  {id:36}  {attempt:>7}  {key:12}  {body}")
}

/// A message as one object.
pub(crate) fn object(message: &Message, attempt: u32, poison: Option<&str>) -> Value {
    let headers: Map<String, Value> =
        message.headers.iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    let mut object = json!({
        "id": message.id,
        "topic": message.topic,
        "key": message.key,
        "attempt": attempt,
        "sent_at": message.created_at,
        "due_at": message.due_at,
        "correlation": message.correlation.id,
        "content_type": message.body.content_type,
        "headers": headers,
    });
    let Ok(body) = message.content(BODY_MAX) else {
        object["poison"] = "the compressed body cannot be read".into();
        return object;
    };
    match (serde_json::from_slice::<Value>(&body.bytes), std::str::from_utf8(&body.bytes)) {
        (Ok(value), _) if body.content_type.contains("json") => object["body"] = value,
        (_, Ok(text)) => object["text"] = text.into(),
        _ => object["base64"] = BASE64.encode(&body.bytes).into(),
    }
    if let Some(error) = poison {
        object["poison"] = error.into();
    }
    object
}
