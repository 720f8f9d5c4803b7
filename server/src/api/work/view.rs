//! View of a message for a worker: complete and not redacted, because the worker handles it.

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

/// Response to a claim.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct ClaimView {
    /// Process id of the worker, which further calls may use as `worker`.
    pub(super) worker: String,
    /// Claimed messages; empty when none was due within the wait.
    pub(super) items: Vec<AssignedView>,
}

/// A claimed message with its lease.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct AssignedView {
    /// The message.
    message: WorkMessage,
    /// Lease of the message.
    lease: TicketView,
    /// Number of the attempt, from 1.
    attempt: u32,
    /// Largest number of attempts; null without a limit.
    attempts_max: Option<u32>,
    /// Start of the attempt.
    started_at: Timestamp,
    /// When the attempt times out; null without a timeout.
    deadline: Option<Timestamp>,
}

/// Lease of an attempt.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct TicketView {
    /// Lease token for `extend`, `progress` and `settle`.
    token: String,
    /// When the lease expires unless it is extended.
    until: Timestamp,
}

/// A message with its body.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct WorkMessage {
    /// The message.
    #[serde(flatten)]
    message: MessageView,
    /// Headers of the message.
    headers: BTreeMap<String, String>,
    /// Body of the message.
    body: WorkBody,
    /// Checkpoint of the previous attempt.
    checkpoint: Option<WorkBody>,
}

/// A complete body as JSON, text or base64, whichever fits first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
struct WorkBody {
    /// Media type of the body.
    content_type: String,
    /// The body as a JSON value, when it is JSON.
    json: Option<Value>,
    /// The body as text, when it is not JSON.
    text: Option<String>,
    /// The body in base64, when it is not text.
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
    /// Returns the view of a claimed message.
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
