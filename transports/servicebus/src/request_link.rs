//! Requests to a node of the broker: one link for requests and one for responses. Tokens are put and locks
//! renewed this way.

use fe2o3_amqp::link::receiver::CreditMode;
use fe2o3_amqp::session::SessionHandle;
use fe2o3_amqp::types::messaging::{
    AmqpValue, ApplicationProperties, Body, Message, MessageId, Properties, Target,
};
use fe2o3_amqp::types::primitives::{SimpleValue, Value};
use fe2o3_amqp::{Receiver, Sender};
use punctual::{Error, Result};

use crate::error::ErrorContext;

/// Most responses that may wait at once.
const CREDIT: u32 = 16;
/// Most responses to earlier requests that are skipped; their callers have timed out.
const LATE_MAX: u32 = 64;

/// Links for requests to one node and its responses.
#[derive(Debug)]
pub(crate) struct RequestLink {
    sender: Sender,
    receiver: Receiver,
    reply_to: String,
    last_id: u64,
}

/// Response of the node.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: i32,
    pub(crate) description: String,
}

impl Response {
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

impl RequestLink {
    /// Attaches to a node; the link names are unique on the connection.
    pub(crate) async fn attach(
        node: &str,
        session: &mut SessionHandle<()>,
        context: ErrorContext<'_>,
    ) -> Result<Self> {
        let reply_to = format!("punctual-responses-{node}");
        let sender = Sender::attach(session, format!("punctual-asks-{node}"), node);
        let sender = sender.await.map_err(|error| context.map_error(error))?;
        let receiver = Receiver::builder()
            .name(reply_to.clone())
            .source(node)
            .target(Target::builder().address(reply_to.as_str()).build())
            .credit_mode(CreditMode::Auto(CREDIT))
            .auto_accept(true)
            .attach(session)
            .await
            .map_err(|error| context.map_error(error))?;
        Ok(Self { sender, receiver, reply_to, last_id: 0 })
    }

    /// Sends a request and waits for the response.
    pub(crate) async fn request(
        &mut self,
        properties_map: Vec<(&str, String)>,
        body: Value,
        context: ErrorContext<'_>,
    ) -> Result<Response> {
        self.last_id += 1;
        let properties = Properties {
            message_id: Some(MessageId::Ulong(self.last_id)),
            reply_to: Some(self.reply_to.clone()),
            ..Properties::default()
        };
        let properties_map = properties_map.into_iter();
        let properties_map =
            properties_map.map(|(name, value)| (name.to_owned(), SimpleValue::String(value)));
        let request = Message {
            properties: Some(properties),
            application_properties: Some(ApplicationProperties(properties_map.collect())),
            header: None,
            delivery_annotations: None,
            message_annotations: None,
            body: AmqpValue(body),
            footer: None,
        };
        // The outcome of sending never arrives when the connection breaks; the response is awaited instead,
        // whose link reports the loss.
        let sent = self.sender.send_batchable(request).await;
        drop(sent.map_err(|error| context.map_error(error))?);
        for _ in 0..LATE_MAX {
            let response = self.receiver.recv::<Body<Value>>().await;
            let response = response.map_err(|error| context.map_error(error))?.into_message();
            let to = response.properties.as_ref().and_then(|known| known.correlation_id.as_ref());
            if to.is_none_or(|to| *to == MessageId::Ulong(self.last_id)) {
                return Ok(response_of(response.application_properties));
            }
        }
        Err(Error::unavailable("Service Bus responds to other requests than the one sent"))
    }
}

fn response_of(properties_map: Option<ApplicationProperties>) -> Response {
    let mut response = Response { status: 0, description: String::new() };
    for (name, value) in properties_map.into_iter().flat_map(|properties_map| properties_map.0) {
        // Both spellings are in use, even by one broker.
        match (name.to_ascii_lowercase().replace('-', "").as_str(), value) {
            ("statuscode", SimpleValue::Int(status)) => response.status = status,
            ("statusdescription", SimpleValue::String(description)) => {
                response.description = description;
            }
            _ => {}
        }
    }
    response
}
