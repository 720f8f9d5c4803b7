//! Connections of the double, and links on which it receives, sends and responds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fe2o3_amqp::acceptor::{
    ConnectionAcceptor, LinkAcceptor, LinkEndpoint, ListenerSessionHandle, SaslAnonymousMechanism,
    SessionAcceptor,
};
use fe2o3_amqp::types::definitions::{AmqpError, Error as AmqpErrorInfo};
use fe2o3_amqp::types::messaging::{AmqpValue, ApplicationProperties, Body, Message, Properties};
use fe2o3_amqp::types::primitives::{SimpleValue, Value};
use fe2o3_amqp::{Receiver, Sender};
use punctual::clock::{add, within};
use punctual::{Clock as _, SystemClock};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::broker::{AmqpMessage, Broker};
use super::nodes;

/// Wait for credit before a message is unlocked again.
const CREDIT_TIMEOUT: Duration = Duration::from_millis(5);
/// Pause of a link without credit or without messages.
const IDLE_PAUSE: Duration = Duration::from_millis(20);

pub(super) type Shared = Arc<Mutex<Broker>>;

/// State shared by the links of one connection: authorized entities, and the routes of responses.
#[derive(Clone, Default)]
pub(super) struct ConnectionState {
    pub(super) open: Arc<Mutex<Vec<String>>>,
    responses: Arc<Mutex<HashMap<String, ResponseRoute>>>,
}

/// Responses to one link, which may be sent before the link is attached.
struct ResponseRoute {
    give: mpsc::UnboundedSender<Response>,
    take: Option<mpsc::UnboundedReceiver<Response>>,
}

impl Default for ResponseRoute {
    fn default() -> Self {
        let (give, take) = mpsc::unbounded_channel();
        Self { give, take: Some(take) }
    }
}

type Response = Message<AmqpValue<Value>>;

pub(super) fn lock_shared<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
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
    let state = ConnectionState::default();
    while let Ok(session) = SessionAcceptor::new().accept(&mut connection).await {
        tokio::spawn(links(session, broker.clone(), state.clone()));
    }
}

async fn links(mut session: ListenerSessionHandle, broker: Shared, state: ConnectionState) {
    let acceptor = LinkAcceptor::builder().max_message_size(256 * 1024_u64).build();
    while let Ok(link) = acceptor.accept(&mut session).await {
        match link {
            LinkEndpoint::Receiver(link) => {
                tokio::spawn(take(link, broker.clone(), state.clone()));
            }
            LinkEndpoint::Sender(link) => {
                tokio::spawn(give(link, broker.clone(), state.clone()));
            }
        }
    }
}

/// Returns whether a token authorizes this entity.
fn is_open(broker: &Shared, state: &ConnectionState, entity: &str) -> bool {
    if !lock_shared(broker).requires_tokens {
        return true;
    }
    let covers = |open: &String| {
        let rest = entity.strip_prefix(open.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    lock_shared(&state.open).iter().any(covers)
}

fn refusal(is_open: bool, entity: &str) -> AmqpErrorInfo {
    if is_open {
        let why = format!("The messaging entity '{entity}' could not be found.");
        return AmqpErrorInfo::new(AmqpError::NotFound, Some(why), None);
    }
    let why = format!("Unauthorized access. 'Send' or 'Listen' claim(s) are required: '{entity}'.");
    AmqpErrorInfo::new(AmqpError::UnauthorizedAccess, Some(why), None)
}

/// Serves a link on which the client sends.
async fn take(mut link: Receiver, broker: Shared, state: ConnectionState) {
    let entity = link.target().as_ref().and_then(|target| target.address.clone());
    let entity = entity.unwrap_or_default();
    let node = entity.strip_suffix("/$management").map(ToOwned::to_owned);
    if entity != "$cbs" && node.is_none() {
        let opened = is_open(&broker, &state, &entity);
        if !opened || !lock_shared(&broker).accepts(&entity) {
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
                let status = nodes::put_token(&broker, &state, &message);
                reply(&state, &message, status);
            }
            Some(source) => {
                let status = nodes::manage(&broker, source, &message);
                reply(&state, &message, status);
            }
            None => lock_shared(&broker).publish(&entity, message, SystemClock.now()),
        }
    }
}

/// Serves a link on which the client receives.
async fn give(link: Sender, broker: Shared, state: ConnectionState) {
    let source = link.source().as_ref().and_then(|source| source.address.clone());
    let source = source.unwrap_or_default();
    if source == "$cbs" || source.ends_with("/$management") {
        let to = link.target().as_ref().and_then(|target| target.address.clone());
        return respond(link, state, to.unwrap_or_default()).await;
    }
    let opened = is_open(&broker, &state, &source);
    if !opened || !lock_shared(&broker).serves(&source) {
        let _ = link.close_with_error(refusal(opened, &source)).await;
        return;
    }
    deliver(link, broker, &source).await;
}

async fn respond(mut link: Sender, state: ConnectionState, to: String) {
    let responses = lock_shared(&state.responses).entry(to).or_default().take.take();
    let Some(mut responses) = responses else { return };
    while let Some(response) = responses.recv().await {
        if link.send(response).await.is_err() {
            return;
        }
    }
}

async fn deliver(mut link: Sender, broker: Shared, source: &str) {
    let wake = lock_shared(&broker).wake(source);
    loop {
        let woken = wake.notified();
        let next = lock_shared(&broker).lock(source, SystemClock.now());
        let Some((lock, letter)) = next else {
            let until = add(SystemClock.now(), IDLE_PAUSE);
            tokio::select! {
                _ = within(&SystemClock, until, woken) => continue,
                _ = link.on_detach() => return,
            }
        };
        let until = add(SystemClock.now(), CREDIT_TIMEOUT);
        match within(&SystemClock, until, link.send_batchable(letter)).await {
            Some(Ok(outcome)) => {
                let (broker, source) = (broker.clone(), source.to_owned());
                tokio::spawn(async move {
                    // Without an outcome the lock stays until it expires.
                    if let Ok(outcome) = outcome.await {
                        lock_shared(&broker).settle(&source, lock, outcome);
                    }
                });
            }
            Some(Err(_)) => return lock_shared(&broker).unlock(source, lock),
            None => {
                lock_shared(&broker).unlock(source, lock);
                let until = add(SystemClock.now(), IDLE_PAUSE);
                if within(&SystemClock, until, link.on_detach()).await.is_some() {
                    return;
                }
            }
        }
    }
}

fn reply(state: &ConnectionState, request: &AmqpMessage, (status, why): (i32, &str)) {
    let Some(properties) = &request.properties else { return };
    let status_properties = [
        ("status-code".to_owned(), SimpleValue::Int(status)),
        ("status-description".to_owned(), SimpleValue::String(why.to_owned())),
    ];
    let response = Message {
        header: None,
        delivery_annotations: None,
        message_annotations: None,
        properties: Some(Properties {
            correlation_id: properties.message_id.clone(),
            ..Properties::default()
        }),
        application_properties: Some(ApplicationProperties(
            status_properties.into_iter().collect(),
        )),
        body: AmqpValue(Value::Null),
        footer: None,
    };
    let to = properties.reply_to.clone().unwrap_or_default();
    let _ = lock_shared(&state.responses).entry(to).or_default().give.send(response);
}
