//! Raw access to queues with the client of AWS, without the transport.

use std::collections::{BTreeMap, HashMap};

use aws_config::BehaviorVersion;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::{Builder, Credentials, Region};
use aws_sdk_sqs::types::{Message, MessageAttributeValue};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use punctual::backend::wire::Wire;
use punctual::bytes::Bytes;

/// Most reads of a queue.
const READS_MAX: usize = 5;

/// Returns a client for an address of the form `http://key:secret@host:port/?region=name`.
pub(crate) fn client(address: &str) -> Client {
    let (_, after) = address.split_once('@').expect("an address with a key");
    let (server, _) = after.split_once('/').unwrap_or((after, ""));
    let settings = Builder::new()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .endpoint_url(format!("http://{server}"))
        .http_client(aws_smithy_http_client::Builder::new().build_http());
    Client::from_conf(settings.build())
}

/// Returns the URLs of the queues whose names begin with a prefix.
pub(crate) async fn queues(client: &Client, prefix: &str) -> Vec<String> {
    let listed = client.list_queues().queue_name_prefix(prefix).send().await;
    listed.expect("a listing").queue_urls.unwrap_or_default()
}

/// Returns the URL of a queue.
pub(crate) async fn queue(client: &Client, name: &str) -> String {
    let found = client.get_queue_url().queue_name(name).send().await;
    found.expect("the queue").queue_url.unwrap_or_default()
}

/// Sends a message with text attributes.
pub(crate) async fn put(client: &Client, queue: &str, body: &[u8], headers: &[(&str, &str)]) {
    let mut call = client.send_message().queue_url(queue);
    call = match std::str::from_utf8(body) {
        Ok(text) => call.message_body(text),
        Err(_) => call
            .message_body(STANDARD.encode(body))
            .message_attributes("punctual-encoding", text("base64")),
    };
    for (name, value) in headers {
        call = call.message_attributes(*name, text(value));
    }
    call.send().await.expect("a message is sent");
}

fn text(value: &str) -> MessageAttributeValue {
    let value = MessageAttributeValue::builder().data_type("String").string_value(value);
    value.build().expect("an attribute")
}

/// Returns the visible messages of a queue, oldest first, and leaves them there.
pub(crate) async fn letters(client: &Client, queue: &str) -> Vec<Wire> {
    let mut found: BTreeMap<String, Message> = BTreeMap::new();
    let mut order = Vec::new();
    for _ in 0..READS_MAX {
        let call = client.receive_message().queue_url(queue).max_number_of_messages(10);
        let call = call.visibility_timeout(0).message_attribute_names("All");
        let messages = call.send().await.expect("a response").messages.unwrap_or_default();
        let before = found.len();
        for message in messages {
            let id = message.message_id.clone().unwrap_or_default();
            if found.insert(id.clone(), message).is_none() {
                order.push(id);
            }
        }
        if found.len() == before {
            break;
        }
    }
    order.iter().filter_map(|id| found.remove(id)).map(wire).collect()
}

/// Decodes a message as the README describes it.
fn wire(message: Message) -> Wire {
    let attributes = message.message_attributes.unwrap_or_default();
    let text = |name: &str| {
        attributes.get(name).and_then(|value| value.string_value.clone()).unwrap_or_default()
    };
    let body = message.body.unwrap_or_default();
    let body = match text("punctual-encoding").as_str() {
        "" => Bytes::from(body),
        "empty" => Bytes::new(),
        "base64" => STANDARD.decode(body).expect("base64").into(),
        other => panic!("the encoding {other}"),
    };
    let headers: HashMap<String, String> =
        serde_json::from_str(&text("punctual-headers")).expect("headers in JSON");
    let headers = headers.into_iter().map(|(name, value)| (name.into(), value)).collect();
    Wire { headers, body, content_type: text("content-type").into() }
}
