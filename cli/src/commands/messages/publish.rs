//! Publishing of a message through the API.

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use clap::Args;
use punctual::jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::client::Call;
use crate::command_context::CommandContext;
use crate::commands::input::{bytes, instant};
use crate::commands::publish::pair;
use crate::render::word;

/// Arguments of `messages publish`.
#[derive(Debug, Args)]
pub(super) struct Publish {
    /// Topic of the message.
    topic: String,
    /// Body: a text, `@path` for a file, or `-` for standard input. Valid JSON is sent as JSON.
    #[arg(value_name = "BODY|@FILE|-", default_value = "null")]
    body: String,
    /// Header; may be repeated.
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = pair)]
    headers: Vec<(String, String)>,
    /// Key of the message, such as an order number.
    #[arg(long)]
    key: Option<String>,
    /// Deduplication key; the message is not stored while an unfinished one has the same key.
    #[arg(long)]
    dedupe: Option<String>,
    /// Replace a pending message that has the same --dedupe.
    #[arg(long, requires = "dedupe")]
    replace: bool,
    /// Queue of the message.
    #[arg(long)]
    queue: Option<String>,
    /// Priority, 0 (last) to 9 (first).
    #[arg(long)]
    priority: Option<u8>,
    /// Delay until the message is due, such as 5m.
    #[arg(long, value_name = "DURATION", conflicts_with = "at")]
    delay: Option<String>,
    /// Instant at which the message is due.
    #[arg(long, value_name = "INSTANT", value_parser = instant, allow_hyphen_values = true)]
    at: Option<Timestamp>,
    /// Largest number of retries.
    #[arg(long, value_name = "N")]
    retry: Option<u32>,
    /// Timeout of an attempt, such as 30s.
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,
    /// Transport of the server that delivers it.
    #[arg(long, value_name = "NAME")]
    via: Option<String>,
    /// Deliver it only to this consumer group.
    #[arg(long)]
    group: Option<String>,
    /// Media type of the body.
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
}

pub(super) async fn publish(context: &CommandContext, publish: &Publish) -> Result<()> {
    let call = Call::post(&["messages"], request(publish)?.into());
    context
        .show(call, |response| match &response["duplicate_of"] {
            Value::Null => word(&response["id"]),
            other => {
                let id = word(other);
                format!("{id}\nNot stored: this unfinished message has the same --dedupe.")
            }
        })
        .await
}

fn request(publish: &Publish) -> Result<Map<String, Value>> {
    let mut request = Map::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            request.insert(key.to_owned(), value);
        }
    };
    let text = |text: &Option<String>| text.clone().map(Value::String);
    let bytes = bytes(&publish.body, "the body")?;
    match (serde_json::from_slice::<Value>(&bytes), std::str::from_utf8(&bytes)) {
        (Ok(value), _) if publish.content_type.is_none() => put("json", Some(value)),
        (_, Ok(words)) => put("text", Some(words.into())),
        _ => put("base64", Some(BASE64.encode(&bytes).into())),
    }
    put("topic", Some(publish.topic.as_str().into()));
    put("key", text(&publish.key));
    put("dedupe", text(&publish.dedupe));
    put("replace", publish.replace.then_some(true.into()));
    put("queue", text(&publish.queue));
    put("priority", publish.priority.map(Value::from));
    put("delay", text(&publish.delay));
    put("at", publish.at.map(|at| at.to_string().into()));
    put("retry", publish.retry.map(Value::from));
    put("timeout", text(&publish.timeout));
    put("transport", text(&publish.via));
    put("group", text(&publish.group));
    put("content_type", text(&publish.content_type));
    if !publish.headers.is_empty() {
        let headers = publish.headers.iter().map(|(name, value)| (name.clone(), json!(value)));
        put("headers", Some(headers.collect::<Map<String, Value>>().into()));
    }
    Ok(request)
}
