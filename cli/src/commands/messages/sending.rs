//! Publishing a message by the API.

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use clap::Args;
use punctual::jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::client::Call;
use crate::commands::given::{bytes, instant};
use crate::commands::publish::pair;
use crate::desk::Desk;
use crate::render::word;

/// What to publish.
#[derive(Debug, Args)]
pub(super) struct Publish {
    /// The topic.
    topic: String,
    /// The body: a text, `@path` for a file, or `-` for standard input. What is JSON is sent as JSON.
    #[arg(value_name = "BODY|@FILE|-", default_value = "null")]
    body: String,
    /// A header; may be given more than once.
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = pair)]
    headers: Vec<(String, String)>,
    /// What the message is about.
    #[arg(long)]
    key: Option<String>,
    /// While a message with the same value lives, this one is a duplicate.
    #[arg(long)]
    dedupe: Option<String>,
    /// Takes the place of a pending message with the same --dedupe instead of being a duplicate of it.
    #[arg(long, requires = "dedupe")]
    replace: bool,
    /// The line it waits in.
    #[arg(long)]
    queue: Option<String>,
    /// How urgent it is, 0 (last) to 9 (first).
    #[arg(long)]
    priority: Option<u8>,
    /// Not before this much later, such as 5m.
    #[arg(long, value_name = "LENGTH", conflicts_with = "at")]
    delay: Option<String>,
    /// Not before this instant.
    #[arg(long, value_name = "INSTANT", value_parser = instant, allow_hyphen_values = true)]
    at: Option<Timestamp>,
    /// How often it is tried again.
    #[arg(long, value_name = "N")]
    retry: Option<u32>,
    /// How long one attempt may take, such as 30s.
    #[arg(long, value_name = "LENGTH")]
    timeout: Option<String>,
    /// The transport of the server that carries it.
    #[arg(long, value_name = "NAME")]
    via: Option<String>,
    /// Only this group gets it.
    #[arg(long)]
    group: Option<String>,
    /// What the body is, as a media type.
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
}

pub(super) async fn publish(desk: &Desk, publish: &Publish) -> Result<()> {
    let call = Call::post(&["messages"], request(publish)?.into());
    desk.show(call, |answer| match &answer["duplicate_of"] {
        Value::Null => word(&answer["id"]),
        other => format!("{}\nNot stored: a message with the same --dedupe lives.", word(other)),
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
