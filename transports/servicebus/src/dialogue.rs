//! Questions and answers with a node of the broker: one link to ask, one to be answered. Tokens are put and
//! locks renewed this way.

use fe2o3_amqp::link::receiver::CreditMode;
use fe2o3_amqp::session::SessionHandle;
use fe2o3_amqp::types::messaging::{
    AmqpValue, ApplicationProperties, Body, Message, MessageId, Properties, Target,
};
use fe2o3_amqp::types::primitives::{SimpleValue, Value};
use fe2o3_amqp::{Receiver, Sender};
use punctual::{Error, Result};

use crate::fault::Asked;

/// Answers that may be waiting at once.
const CREDIT: u32 = 16;
/// How many answers to earlier questions are passed over; those whose askers gave up.
const LATE_MAX: u32 = 64;

/// Two links to one node.
#[derive(Debug)]
pub(crate) struct Dialogue {
    sender: Sender,
    receiver: Receiver,
    reply_to: String,
    asked: u64,
}

/// What the node said.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: i32,
    pub(crate) why: String,
}

impl Answer {
    pub(crate) fn is_yes(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

impl Dialogue {
    /// Links to a node; their names are like nobody else's on the connection.
    pub(crate) async fn with(
        node: &str,
        session: &mut SessionHandle<()>,
        asked: Asked<'_>,
    ) -> Result<Self> {
        let reply_to = format!("punctual-answers-{node}");
        let sender = Sender::attach(session, format!("punctual-asks-{node}"), node);
        let sender = sender.await.map_err(|error| asked.failed(error))?;
        let receiver = Receiver::builder()
            .name(reply_to.clone())
            .source(node)
            .target(Target::builder().address(reply_to.as_str()).build())
            .credit_mode(CreditMode::Auto(CREDIT))
            .auto_accept(true)
            .attach(session)
            .await
            .map_err(|error| asked.failed(error))?;
        Ok(Self { sender, receiver, reply_to, asked: 0 })
    }

    /// Asks and waits for the answer.
    pub(crate) async fn ask(
        &mut self,
        about: Vec<(&str, String)>,
        body: Value,
        asked: Asked<'_>,
    ) -> Result<Answer> {
        self.asked += 1;
        let properties = Properties {
            message_id: Some(MessageId::Ulong(self.asked)),
            reply_to: Some(self.reply_to.clone()),
            ..Properties::default()
        };
        let about = about.into_iter();
        let about = about.map(|(name, value)| (name.to_owned(), SimpleValue::String(value)));
        let question = Message {
            properties: Some(properties),
            application_properties: Some(ApplicationProperties(about.collect())),
            header: None,
            delivery_annotations: None,
            message_annotations: None,
            body: AmqpValue(body),
            footer: None,
        };
        // Its outcome never comes when the connection breaks; the answer is waited for instead, whose link
        // knows of that.
        let sent = self.sender.send_batchable(question).await;
        drop(sent.map_err(|error| asked.failed(error))?);
        for _ in 0..LATE_MAX {
            let answer = self.receiver.recv::<Body<Value>>().await;
            let answer = answer.map_err(|error| asked.failed(error))?.into_message();
            let to = answer.properties.as_ref().and_then(|known| known.correlation_id.as_ref());
            if to.is_none_or(|to| *to == MessageId::Ulong(self.asked)) {
                return Ok(read(answer.application_properties));
            }
        }
        Err(Error::unavailable("Service Bus answers other questions than were asked"))
    }
}

fn read(about: Option<ApplicationProperties>) -> Answer {
    let mut answer = Answer { status: 0, why: String::new() };
    for (name, value) in about.into_iter().flat_map(|about| about.0) {
        // Both spellings are in use, even by one broker.
        match (name.to_ascii_lowercase().replace('-', "").as_str(), value) {
            ("statuscode", SimpleValue::Int(status)) => answer.status = status,
            ("statusdescription", SimpleValue::String(why)) => answer.why = why,
            _ => {}
        }
    }
    answer
}
