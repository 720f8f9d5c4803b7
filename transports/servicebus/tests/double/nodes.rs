//! Request nodes of the double: `$cbs`, where tokens are put, and `$management`, where locks are renewed and
//! deliveries settled.

use std::collections::HashMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use fe2o3_amqp::types::definitions::{AmqpError, Error as AmqpErrorInfo, Fields};
use fe2o3_amqp::types::messaging::{Accepted, AmqpValue, Body, Modified, Outcome, Rejected};
use fe2o3_amqp::types::primitives::{Symbol, Value};
use punctual::{Clock as _, SystemClock};
use ring::hmac;

use super::broker::{AmqpMessage, properties};
use super::port::{KEY, POLICY};
use super::serve::{ConnectionState, Shared, lock_shared};

fn property(message: &AmqpMessage, name: &str) -> String {
    let known = properties(message.application_properties.as_ref());
    known.into_iter().find(|(known, _)| known == name).map(|(_, value)| value).unwrap_or_default()
}

pub(super) fn put_token(
    broker: &Shared,
    state: &ConnectionState,
    message: &AmqpMessage,
) -> (i32, &'static str) {
    let Body::Value(AmqpValue(Value::String(token))) = &message.body else {
        return (400, "The token is not text.");
    };
    if property(message, "operation") != "put-token"
        || property(message, "type") != "servicebus.windows.net:sastoken"
    {
        return (400, "The operation or the type of the token is not known.");
    }
    let name = property(message, "name");
    match checked(token, &name) {
        Ok(until) => {
            let entity = name.trim_start_matches("sb://");
            let entity = entity.split_once('/').map(|(_, entity)| entity).unwrap_or_default();
            lock_shared(&state.open).push(entity.to_owned());
            lock_shared(broker).tokens.push((entity.to_owned(), until));
            (202, "Accepted")
        }
        Err(why) => (401, why),
    }
}

/// Returns when a token expires, if it is valid for this resource.
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
        return Err("ExpiredToken: it has expired");
    }
    let signed = BASE64_STANDARD.decode(plain(sig)).map_err(|_| "InvalidSignature: no base64")?;
    let key = hmac::Key::new(hmac::HMAC_SHA256, KEY.as_bytes());
    hmac::verify(&key, format!("{sr}\n{se}").as_bytes(), &signed)
        .map_err(|_| "InvalidSignature: The token has an invalid signature.")?;
    Ok(until)
}

/// Percent-decodes text of a URL.
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

pub(super) fn manage(broker: &Shared, source: &str, message: &AmqpMessage) -> (i32, &'static str) {
    let Body::Value(AmqpValue(Value::Map(body))) = &message.body else {
        return (400, "The body is not a map.");
    };
    let field = |name: &str| body.get(&Value::String(name.to_owned()));
    let Some(Value::Array(locks)) = field("lock-tokens") else {
        return (400, "There are no lock-tokens.");
    };
    let lock = |lock: &Value| match lock {
        Value::Uuid(lock) => Some(*lock.as_inner()),
        _ => None,
    };
    let locks: Vec<[u8; 16]> = locks.iter().filter_map(lock).collect();
    let mut broker = lock_shared(broker);
    let is_done = match property(message, "operation").as_str() {
        "com.microsoft:renew-lock" => broker.renew(source, &locks, SystemClock.now()),
        "com.microsoft:update-disposition" => {
            let Some(outcome) = outcome(field) else {
                return (400, "The disposition-status is not known.");
            };
            let is_valid = locks.iter().all(|lock| broker.is_locked(source, *lock));
            if is_valid {
                for lock in &locks {
                    broker.settle(source, *lock, outcome.clone());
                }
                broker.settlements += 1;
            }
            is_valid
        }
        _ => return (501, "The operation is not known."),
    };
    if is_done { (200, "OK") } else { (410, "The lock supplied is invalid.") }
}

/// Returns the outcome that a request names.
fn outcome<'a>(field: impl Fn(&str) -> Option<&'a Value>) -> Option<Outcome> {
    let Some(Value::String(status)) = field("disposition-status") else { return None };
    Some(match status.as_str() {
        "completed" => Outcome::Accepted(Accepted {}),
        "abandoned" => Outcome::Modified(Modified {
            delivery_failed: Some(true),
            undeliverable_here: None,
            message_annotations: None,
        }),
        "suspended" => {
            let mut info = Fields::new();
            for (name, known) in [
                ("DeadLetterReason", "deadletter-reason"),
                ("DeadLetterErrorDescription", "deadletter-description"),
            ] {
                if let Some(value) = field(known) {
                    info.insert(Symbol::from(name), value.clone());
                }
            }
            if let Some(Value::Map(rest)) = field("properties-to-modify") {
                for (name, value) in rest {
                    if let Value::String(name) = name {
                        info.insert(Symbol(name.clone()), value.clone());
                    }
                }
            }
            let why = AmqpErrorInfo::new(AmqpError::InternalError, None, Some(info));
            Outcome::Rejected(Rejected { error: Some(why) })
        }
        _ => return None,
    })
}
