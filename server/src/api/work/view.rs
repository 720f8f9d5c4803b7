//! A message as a worker gets it: whole, because it is there to be handled, not looked at.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use punctual::client::AssignedMessage;
use punctual::model::{Body, MessageRecord, MessageState};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::api::messages::view::MessageView;

/// What a worker was given.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct ClaimView {
    /// The identity of the worker; the same one may be given in every further call.
    pub(super) worker: String,
    /// The messages; empty when nothing came within the wait.
    pub(super) items: Vec<AssignedView>,
}

/// One message and the right to end its attempt.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct AssignedView {
    /// The message.
    message: WorkMessage,
    /// The right to it.
    lease: TicketView,
    /// Which attempt this is, from 1.
    attempt: u32,
    /// How many there may be; null without a limit.
    attempts_max: Option<u32>,
    /// When the attempt began.
    started_at: Timestamp,
    /// After this the attempt has timed out, whatever is reported.
    deadline: Option<Timestamp>,
}

/// The right to end one attempt.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct TicketView {
    /// Give this back to extend, to say how far, and to settle.
    token: String,
    /// When others may take the message over, unless it is extended.
    until: Timestamp,
}

/// A message with its content.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct WorkMessage {
    /// The message.
    #[serde(flatten)]
    message: MessageView,
    /// Small facts that travel along.
    headers: BTreeMap<String, String>,
    /// The content.
    body: WorkBody,
    /// Where the attempt before wanted to go on.
    checkpoint: Option<WorkBody>,
}

/// A whole content, in the first of three forms that fits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
struct WorkBody {
    /// What it is, as a media type.
    content_type: String,
    /// The value, when it is JSON.
    json: Option<Value>,
    /// The text, when it is text and not JSON.
    text: Option<String>,
    /// The bytes, when they are no text.
    base64: Option<String>,
}

impl WorkBody {
    fn new(body: &Body) -> Self {
        let view = Self { content_type: body.content_type.to_string(), ..Self::default() };
        if body.bytes.is_empty() {
            return view;
        }
        if let Ok(json) = serde_json::from_slice(&body.bytes) {
            return Self { json: Some(json), ..view };
        }
        match std::str::from_utf8(&body.bytes) {
            Ok(text) => Self { text: Some(text.to_owned()), ..view },
            Err(_) => Self { base64: Some(BASE64.encode(&body.bytes)), ..view },
        }
    }
}

impl AssignedView {
    /// What was handed out.
    pub(super) fn new(assigned: &AssignedMessage, now: Timestamp) -> Self {
        let claimed = &assigned.claimed;
        let message = &claimed.message;
        let record = MessageRecord {
            state: MessageState::Running,
            due_at: claimed.due_at,
            attempt: claimed.attempt,
            crashes: claimed.crashes,
            snoozes: claimed.snoozes,
            lease: Some(claimed.lease),
            cancel_requested: claimed.cancel_requested,
            ..MessageRecord::new(message.clone())
        };
        let headers = message.headers.iter();
        Self {
            message: WorkMessage {
                message: MessageView {
                    attempts_max: assigned.attempts_max,
                    ..MessageView::new(&record, now)
                },
                headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
                body: WorkBody::new(&message.body),
                checkpoint: claimed.checkpoint.as_ref().map(WorkBody::new),
            },
            lease: TicketView { token: assigned.ticket.to_string(), until: claimed.lease.until },
            attempt: claimed.attempt,
            attempts_max: assigned.attempts_max,
            started_at: assigned.started_at,
            deadline: assigned.deadline,
        }
    }
}
