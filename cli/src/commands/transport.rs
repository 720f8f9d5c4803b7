//! Transport commands: the arguments they share, and a message as a row or as JSON.

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use clap::Args;
use punctual::model::Message;
use punctual_backends::{OpenedTransport, open_transport};
use serde_json::{Map, Value, json};

use super::storage::existing;
use crate::render::one_line;

/// Largest size of a body that is sent or printed.
pub(crate) const BODY_MAX: usize = 16 << 20;
/// Largest number of characters of a body or a key in a table.
const CELL_LEN_MAX: usize = 200;

/// Address of a transport.
#[derive(Debug, Args)]
pub(crate) struct TransportArgs {
    /// Address of the transport, such as `sqlite:path/to/file.db`; the error about a wrong one lists the schemes.
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

    /// Opens the transport; fails when its file does not exist.
    pub(crate) async fn open_existing(&self) -> Result<OpenedTransport> {
        if self.address.trim_start().to_ascii_lowercase().starts_with("sqlite:") {
            existing(&self.address)?;
        }
        self.open().await
    }
}

/// Returns the header of the table of messages.
pub(crate) fn header_row() -> String {
    row("sent", "id", "attempt", "key", "body")
}

/// Returns a message as a row of the table.
pub(crate) fn message_row(message: &Message, attempt: u32, poison: Option<&str>) -> String {
    let body = match (poison, message.content(BODY_MAX)) {
        (Some(error), _) => format!("cannot be read: {error}"),
        (None, Err(error)) => format!("cannot be read: {error}"),
        (None, Ok(body)) => match std::str::from_utf8(&body.bytes) {
            Ok(text) => one_line(text, CELL_LEN_MAX),
            Err(_) => format!("{} bytes of {}", body.bytes.len(), body.content_type),
        },
    };
    let sent = message.created_at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let key = message
        .key
        .as_ref()
        .map_or_else(|| "-".to_owned(), |key| one_line(key.as_str(), CELL_LEN_MAX));
    row(&sent, &message.id.to_string(), &attempt.to_string(), &key, &body)
}

fn row(sent: &str, id: &str, attempt: &str, key: &str, body: &str) -> String {
    format!("{sent:20}  {id:36}  {attempt:>7}  {key:12}  {body}")
}

/// Returns a message as a JSON object.
pub(crate) fn message_json(message: &Message, attempt: u32, poison: Option<&str>) -> Value {
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
