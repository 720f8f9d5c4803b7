//! How the broker talks: connections, and links by which it takes, gives and answers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fe2o3_amqp::acceptor::{
    ConnectionAcceptor, LinkAcceptor, LinkEndpoint, ListenerSessionHandle, SaslAnonymousMechanism,
    SessionAcceptor,
};
use fe2o3_amqp::types::definitions::{AmqpError, Error as Told};
use fe2o3_amqp::types::messaging::{AmqpValue, ApplicationProperties, Body, Message, Properties};
use fe2o3_amqp::types::primitives::{SimpleValue, Value};
use fe2o3_amqp::{Receiver, Sender};
use punctual::clock::{add, within};
use punctual::{Clock as _, SystemClock};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::broker::{Broker, Letter};
use super::nodes;

/// How long a message waits for credit before others may have it.
const CREDIT_WITHIN: Duration = Duration::from_millis(5);
/// How long a link rests that has no credit, or nothing to send.
const REST: Duration = Duration::from_millis(20);

pub(super) type Shared = Arc<Mutex<Broker>>;

/// What the links of one connection share: the entities that are open to it, and where answers go.
#[derive(Clone, Default)]
pub(super) struct Seat {
    pub(super) open: Arc<Mutex<Vec<String>>>,
    answers: Arc<Mutex<HashMap<String, Answers>>>,
}

/// Answers on their way to one link, which may come before the link is ready for them.
struct Answers {
    give: mpsc::UnboundedSender<Answer>,
    take: Option<mpsc::UnboundedReceiver<Answer>>,
}

impl Default for Answers {
    fn default() -> Self {
        let (give, take) = mpsc::unbounded_channel();
        Self { give, take: Some(take) }
    }
}

type Answer = Message<AmqpValue<Value>>;

pub(super) fn look<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) async fn run(listener: TcpListener, broker: Shared) {
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        tokio::spawn(connection(stream, broker.clone()));
    }
}

async fn connection(stream: TcpStream, broker: Shared) {
    let acceptor = ConnectionAcceptor::builder()
        .container_id("double")
        .max_frame_size(64 * 1024_u32)
        .sasl_acceptor(SaslAnonymousMechanism::new())
        .build();
    let Ok(mut connection) = acceptor.accept(stream).await else { return };
    let seat = Seat::default();
    while let Ok(session) = SessionAcceptor::new().accept(&mut connection).await {
        tokio::spawn(links(session, broker.clone(), seat.clone()));
    }
}

async fn links(mut session: ListenerSessionHandle, broker: Shared, seat: Seat) {
    let acceptor = LinkAcceptor::builder().max_message_size(256 * 1024_u64).build();
    while let Ok(link) = acceptor.accept(&mut session).await {
        match link {
            LinkEndpoint::Receiver(link) => {
                tokio::spawn(take(link, broker.clone(), seat.clone()));
            }
            LinkEndpoint::Sender(link) => {
                tokio::spawn(give(link, broker.clone(), seat.clone()));
            }
        }
    }
}

/// Whether a token opens this entity.
fn is_open(broker: &Shared, seat: &Seat, entity: &str) -> bool {
    if !look(broker).asks_tokens {
        return true;
    }
    let covers = |open: &String| {
        let rest = entity.strip_prefix(open.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    look(&seat.open).iter().any(covers)
}

fn refusal(is_open: bool, entity: &str) -> Told {
    if is_open {
        let why = format!("The messaging entity '{entity}' could not be found.");
        return Told::new(AmqpError::NotFound, Some(why), None);
    }
    let why = format!("Unauthorized access. 'Send' or 'Listen' claim(s) are required: '{entity}'.");
    Told::new(AmqpError::UnauthorizedAccess, Some(why), None)
}

/// A link by which somebody sends to us.
async fn take(mut link: Receiver, broker: Shared, seat: Seat) {
    let entity = link.target().as_ref().and_then(|target| target.address.clone());
    let entity = entity.unwrap_or_default();
    let node = entity.strip_suffix("/$management").map(ToOwned::to_owned);
    if entity != "$cbs" && node.is_none() {
        let opened = is_open(&broker, &seat, &entity);
        if !opened || !look(&broker).takes(&entity) {
            let _ = link.close_with_error(refusal(opened, &entity)).await;
            return;
        }
    }
    while let Ok(delivery) = link.recv::<Body<Value>>().await {
        let message = delivery.message().clone();
        if link.accept(&delivery).await.is_err() {
            return;
        }
        match &node {
            _ if entity == "$cbs" => {
                let status = nodes::put_token(&broker, &seat, &message);
                reply(&seat, &message, status);
            }
            Some(source) => {
                let status = nodes::manage(&broker, source, &message);
                reply(&seat, &message, status);
            }
            None => look(&broker).publish(&entity, message, SystemClock.now()),
        }
    }
}

/// A link by which we send to somebody.
async fn give(link: Sender, broker: Shared, seat: Seat) {
    let source = link.source().as_ref().and_then(|source| source.address.clone());
    let source = source.unwrap_or_default();
    if source == "$cbs" || source.ends_with("/$management") {
        let to = link.target().as_ref().and_then(|target| target.address.clone());
        return answer(link, seat, to.unwrap_or_default()).await;
    }
    let opened = is_open(&broker, &seat, &source);
    if !opened || !look(&broker).gives(&source) {
        let _ = link.close_with_error(refusal(opened, &source)).await;
        return;
    }
    deliver(link, broker, &source).await;
}

async fn answer(mut link: Sender, seat: Seat, to: String) {
    let answers = look(&seat.answers).entry(to).or_default().take.take();
    let Some(mut answers) = answers else { return };
    while let Some(answer) = answers.recv().await {
        if link.send(answer).await.is_err() {
            return;
        }
    }
}

async fn deliver(mut link: Sender, broker: Shared, source: &str) {
    let wake = look(&broker).wake(source);
    loop {
        let woken = wake.notified();
        let next = look(&broker).lock(source, SystemClock.now());
        let Some((lock, letter)) = next else {
            let until = add(SystemClock.now(), REST);
            tokio::select! {
                _ = within(&SystemClock, until, woken) => continue,
                _ = link.on_detach() => return,
            }
        };
        let until = add(SystemClock.now(), CREDIT_WITHIN);
        match within(&SystemClock, until, link.send_batchable(letter)).await {
            Some(Ok(outcome)) => {
                let (broker, source) = (broker.clone(), source.to_owned());
                tokio::spawn(async move {
                    // Without an outcome the lock stays until it runs out.
                    if let Ok(outcome) = outcome.await {
                        look(&broker).settle(&source, lock, outcome);
                    }
                });
            }
            Some(Err(_)) => return look(&broker).unlock(source, lock),
            None => {
                look(&broker).unlock(source, lock);
                let until = add(SystemClock.now(), REST);
                if within(&SystemClock, until, link.on_detach()).await.is_some() {
                    return;
                }
            }
        }
    }
}

fn reply(seat: &Seat, question: &Letter, (status, why): (i32, &str)) {
    let Some(asked) = &question.properties else { return };
    let about = [
        ("status-code".to_owned(), SimpleValue::Int(status)),
        ("status-description".to_owned(), SimpleValue::String(why.to_owned())),
    ];
    let answer = Message {
        header: None,
        delivery_annotations: None,
        message_annotations: None,
        properties: Some(Properties {
            correlation_id: asked.message_id.clone(),
            ..Properties::default()
        }),
        application_properties: Some(ApplicationProperties(about.into_iter().collect())),
        body: AmqpValue(Value::Null),
        footer: None,
    };
    let to = asked.reply_to.clone().unwrap_or_default();
    let _ = look(&seat.answers).entry(to).or_default().give.send(answer);
}
