//! Settles deliveries on their link. Many that are done go in few frames: the numbers of neighbours
//! become a range. A link that does not take them within the timeout counts as lost.

use fe2o3_amqp::Receiver;
use fe2o3_amqp::link::delivery::DeliveryInfo;
use fe2o3_amqp::types::definitions::{Error as Told, ErrorCondition};
use fe2o3_amqp::types::messaging::Modified;
use fe2o3_amqp::types::primitives::Symbol;
use punctual::{Error, Result};
use tokio::sync::oneshot;

use crate::attached::Attached;
use crate::hold::Holds;
use crate::receipt::{Call, Fate, Request};

/// What the broker wants to be told for a dead letter.
const DEAD_LETTER: &str = "com.microsoft:dead-letter";

/// Who waits for a delivery to be settled.
type Waiting = Option<oneshot::Sender<Result<()>>>;

/// Handles calls in order, but completes deliveries together. Fails when the link is lost; every call has
/// its result then, too.
pub(crate) async fn answer(
    attached: &Attached,
    holds: &Holds,
    calls: &mut Vec<Call>,
) -> Result<()> {
    let mut done: Vec<(DeliveryInfo, Waiting)> = Vec::new();
    let mut flushed = Vec::new();
    let mut ended = Ok(());
    for call in calls.drain(..) {
        match call {
            Call::Flush(answer) => flushed.push(answer),
            Call::Settle(request) if ended.is_err() => {
                holds.let_go(request.number());
                refuse(request);
            }
            Call::Settle(request) if is_simple(&request, attached) => {
                if holds.let_go(request.number()) {
                    done.push((request.info, request.answer));
                }
            }
            Call::Settle(request) => ended = Box::pin(one(attached, holds, request)).await,
        }
    }
    if !done.is_empty() {
        let infos: Vec<DeliveryInfo> = done.iter().map(|(info, _)| info.clone()).collect();
        let mut settled = false;
        if ended.is_ok() {
            let accepting = async { Ok(attached.receiver.accept_all(infos).await.is_ok()) };
            (settled, ended) = outcome(attached.management.settings.in_time(accepting).await);
        }
        for (_, answer) in done {
            tell(answer, settled);
        }
    }
    for answer in flushed {
        let _ = answer.send(());
    }
    ended
}

/// Whether it was settled, and whether the link is still of use.
fn outcome(settled: Result<bool>) -> (bool, Result<()>) {
    match settled {
        Ok(settled) => (settled, Ok(())),
        Err(error) => (false, Err(error)),
    }
}

/// Whether it can be settled together with others.
fn is_simple(request: &Request, attached: &Attached) -> bool {
    request.link == attached.number && matches!(request.fate, Fate::Complete)
}

/// Settles one delivery, by its link or, when that is gone, by its lock. Fails when the present link is
/// lost.
pub(crate) async fn one(attached: &Attached, holds: &Holds, request: Request) -> Result<()> {
    let is_held = holds.let_go(request.number());
    let Request { info, link, lock, fate, answer } = request;
    let mut ended = Ok(());
    let is_settled = match lock {
        _ if !is_held => false,
        _ if link == attached.number => {
            let settling = async { Ok(by_link(&attached.receiver, info, fate).await) };
            let is_settled;
            (is_settled, ended) = outcome(attached.management.settings.in_time(settling).await);
            is_settled
        }
        Some(lock) => {
            let settled = attached.management.settle(lock, &fate).await;
            let settled = settled
                .inspect_err(|error| tracing::debug!(%error, "a delivery could not be settled"));
            settled.unwrap_or(false)
        }
        None => false,
    };
    tell(answer, is_settled);
    ended
}

async fn by_link(receiver: &Receiver, info: DeliveryInfo, fate: Fate) -> bool {
    let settled = match fate {
        Fate::Complete => receiver.accept(info).await,
        Fate::Release => receiver.release(info).await,
        Fate::Abandon => {
            let failed = Modified {
                delivery_failed: Some(true),
                undeliverable_here: None,
                message_annotations: None,
            };
            receiver.modify(info, failed).await
        }
        Fate::Bury(fields) => {
            let condition = ErrorCondition::Custom(Symbol::from(DEAD_LETTER));
            let why = Told::new(condition, None, Some(fields));
            receiver.reject(info, Some(why)).await
        }
    };
    settled.is_ok()
}

/// Says that a delivery cannot be settled now.
pub(crate) fn refuse(request: Request) {
    tell(request.answer, false);
}

fn tell(answer: Waiting, is_settled: bool) {
    let Some(answer) = answer else { return };
    let told = if is_settled { Ok(()) } else { Err(gone()) };
    // Whoever asked may have given up.
    let _ = answer.send(told);
}

fn gone() -> Error {
    Error::unavailable(
        "the connection is lost and the delivery could not be settled; it comes again when its lock runs out",
    )
}
