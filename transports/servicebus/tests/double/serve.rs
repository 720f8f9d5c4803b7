//! How the broker talks: connections, links, tokens, and the questions a management node answers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
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
use ring::hmac;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::broker::{Broker, Letter, properties};
use super::{KEY, POLICY};

/// How long a message waits for credit before others may have it.
const CREDIT_WITHIN: Duration = Duration::from_millis(5);
/// How long a link rests that has no credit, or nothing to send.
const REST: Duration = Duration::from_millis(20);

type Shared = Arc<Mutex<Broker>>;

/// What the links of one connection share: the entities that are open to it, and where answers go.
#[derive(Clone, Default)]
struct Seat {
    open: Arc<Mutex<Vec<String>>>,
    answers: Arc<Mutex<HashMap<String, mpsc::UnboundedSender<Answer>>>>,
}

type Answer = Message<AmqpValue<Value>>;

fn look<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
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
fn is_open(seat: &Seat, entity: &str) -> bool {
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
        let opened = is_open(&seat, &entity);
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
                let status = put_token(&broker, &seat, &message);
                reply(&seat, &message, status);
            }
            Some(source) => {
                let status = manage(&broker, source, &message);
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
    let opened = is_open(&seat, &source);
    if !opened || !look(&broker).gives(&source) {
        let _ = link.close_with_error(refusal(opened, &source)).await;
        return;
    }
    deliver(link, broker, &source).await;
}

async fn answer(mut link: Sender, seat: Seat, to: String) {
    let (sender, mut answers) = mpsc::unbounded_channel();
    look(&seat.answers).insert(to, sender);
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
    if let Some(to) = asked.reply_to.as_ref().and_then(|to| look(&seat.answers).get(to).cloned()) {
        let _ = to.send(answer);
    }
}

fn about(message: &Letter, name: &str) -> String {
    let known = properties(message.application_properties.as_ref());
    known.into_iter().find(|(known, _)| known == name).map(|(_, value)| value).unwrap_or_default()
}

fn put_token(broker: &Shared, seat: &Seat, message: &Letter) -> (i32, &'static str) {
    let Body::Value(AmqpValue(Value::String(token))) = &message.body else {
        return (400, "The token is no text.");
    };
    if about(message, "operation") != "put-token"
        || about(message, "type") != "servicebus.windows.net:sastoken"
    {
        return (400, "The operation or the type of the token is not known.");
    }
    let name = about(message, "name");
    match checked(token, &name) {
        Ok(until) => {
            let entity = name.trim_start_matches("sb://");
            let entity = entity.split_once('/').map(|(_, entity)| entity).unwrap_or_default();
            look(&seat.open).push(entity.to_owned());
            look(broker).tokens.push((entity.to_owned(), until));
            (202, "Accepted")
        }
        Err(why) => (401, why),
    }
}

/// When a token runs out, if it is a good one for this resource.
fn checked(token: &str, resource: &str) -> Result<i64, &'static str> {
    let fields =
        token.strip_prefix("SharedAccessSignature ").ok_or("InvalidSignature: no scheme")?;
    let fields: HashMap<&str, &str> =
        fields.split('&').filter_map(|field| field.split_once('=')).collect();
    let field = |name: &str| fields.get(name).copied().ok_or("InvalidSignature: a part is missing");
    let (sr, sig, se, skn) = (field("sr")?, field("sig")?, field("se")?, field("skn")?);
    if !resource.starts_with(&plain(sr)) || plain(skn) != POLICY {
        return Err("InvalidSignature: for something else");
    }
    let until: i64 = se.parse().map_err(|_| "InvalidSignature: no time")?;
    if until <= SystemClock.now().as_second() {
        return Err("ExpiredToken: it has run out");
    }
    let signed = BASE64_STANDARD.decode(plain(sig)).map_err(|_| "InvalidSignature: no base64")?;
    let key = hmac::Key::new(hmac::HMAC_SHA256, KEY.as_bytes());
    hmac::verify(&key, format!("{sr}\n{se}").as_bytes(), &signed)
        .map_err(|_| "InvalidSignature: The token has an invalid signature.")?;
    Ok(until)
}

/// Text that stood in an address.
fn plain(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits: Vec<u8> = rest.by_ref().take(2).collect();
        let digits = std::str::from_utf8(&digits).unwrap_or_default();
        bytes.push(u8::from_str_radix(digits, 16).unwrap_or(b'?'));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn manage(broker: &Shared, source: &str, message: &Letter) -> (i32, &'static str) {
    if about(message, "operation") != "com.microsoft:renew-lock" {
        return (501, "The operation is not known.");
    }
    let Body::Value(AmqpValue(Value::Map(body))) = &message.body else {
        return (400, "The body is no map.");
    };
    let Some(Value::Array(locks)) = body.get(&Value::String("lock-tokens".to_owned())) else {
        return (400, "There are no lock-tokens.");
    };
    let locks: Vec<[u8; 16]> = locks
        .iter()
        .filter_map(|lock| match lock {
            Value::Uuid(lock) => Some(*lock.as_inner()),
            _ => None,
        })
        .collect();
    if look(broker).renew(source, &locks, SystemClock.now()) {
        return (200, "OK");
    }
    (410, "The lock supplied is invalid.")
}
