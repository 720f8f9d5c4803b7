//! Settler: settles deliveries on their link. Completed deliveries go in few frames, as adjacent numbers form a
//! range. A link that does not accept them within the timeout counts as lost.

use fe2o3_amqp::Receiver;
use fe2o3_amqp::link::delivery::DeliveryInfo;
use fe2o3_amqp::types::definitions::{Error as AmqpErrorInfo, ErrorCondition};
use fe2o3_amqp::types::messaging::Modified;
use fe2o3_amqp::types::primitives::Symbol;
use punctual::{Error, Result};
use tokio::sync::oneshot;

use crate::in_flight::InFlight;
use crate::receipt::{Disposition, ReaderCommand, Settlement};
use crate::receiver_link::ReceiverLink;

/// Error condition that moves a rejected message to the dead letters.
const DEAD_LETTER: &str = "com.microsoft:dead-letter";

/// Receiver of the result; none for a dropped delivery.
type ResultSender = Option<oneshot::Sender<Result<()>>>;

/// Handles commands in order, but completes deliveries together. Fails when the link is lost; every command has
/// its result then, too.
pub(crate) async fn settle_all(
    link: &ReceiverLink,
    in_flight: &InFlight,
    commands: &mut Vec<ReaderCommand>,
) -> Result<()> {
    let mut done: Vec<(DeliveryInfo, ResultSender)> = Vec::new();
    let mut flushed = Vec::new();
    let mut outcome_of_link = Ok(());
    for command in commands.drain(..) {
        match command {
            ReaderCommand::Flush(result_sender) => flushed.push(result_sender),
            ReaderCommand::Settle(settlement) if outcome_of_link.is_err() => {
                in_flight.remove(settlement.number());
                fail(settlement);
            }
            ReaderCommand::Settle(settlement) if is_batchable(&settlement, link) => {
                if in_flight.remove(settlement.number()) {
                    done.push((settlement.info, settlement.result_sender));
                }
            }
            ReaderCommand::Settle(settlement) => {
                outcome_of_link = Box::pin(settle_one(link, in_flight, settlement)).await;
            }
        }
    }
    if !done.is_empty() {
        let infos: Vec<DeliveryInfo> = done.iter().map(|(info, _)| info.clone()).collect();
        let mut settled = false;
        if outcome_of_link.is_ok() {
            let accepting = async { Ok(link.receiver.accept_all(infos).await.is_ok()) };
            (settled, outcome_of_link) =
                split_outcome(link.management.settings.within_timeout(accepting).await);
        }
        for (_, result_sender) in done {
            send_result(result_sender, settled);
        }
    }
    for result_sender in flushed {
        let _ = result_sender.send(());
    }
    outcome_of_link
}

/// Returns whether the delivery was settled, and an error when the link is lost.
fn split_outcome(settled: Result<bool>) -> (bool, Result<()>) {
    match settled {
        Ok(settled) => (settled, Ok(())),
        Err(error) => (false, Err(error)),
    }
}

/// Returns whether a delivery can be settled together with others.
fn is_batchable(settlement: &Settlement, link: &ReceiverLink) -> bool {
    settlement.link_number == link.number && matches!(settlement.disposition, Disposition::Complete)
}

/// Settles one delivery, on its link or, when that is gone, by its lock. Fails when the present link is lost.
pub(crate) async fn settle_one(
    link: &ReceiverLink,
    in_flight: &InFlight,
    settlement: Settlement,
) -> Result<()> {
    let is_in_flight = in_flight.remove(settlement.number());
    let Settlement { info, link_number, lock, disposition, result_sender } = settlement;
    let mut outcome_of_link = Ok(());
    let is_settled = match lock {
        _ if !is_in_flight => false,
        _ if link_number == link.number => {
            let settling = async { Ok(settle_on_link(&link.receiver, info, disposition).await) };
            let is_settled;
            (is_settled, outcome_of_link) =
                split_outcome(link.management.settings.within_timeout(settling).await);
            is_settled
        }
        Some(lock) => {
            let settled = link.management.settle(lock, &disposition).await;
            let settled = settled
                .inspect_err(|error| tracing::debug!(%error, "a delivery could not be settled"));
            settled.unwrap_or(false)
        }
        None => false,
    };
    send_result(result_sender, is_settled);
    outcome_of_link
}

async fn settle_on_link(receiver: &Receiver, info: DeliveryInfo, disposition: Disposition) -> bool {
    let settled = match disposition {
        Disposition::Complete => receiver.accept(info).await,
        Disposition::Release => receiver.release(info).await,
        Disposition::Abandon => {
            let failed = Modified {
                delivery_failed: Some(true),
                undeliverable_here: None,
                message_annotations: None,
            };
            receiver.modify(info, failed).await
        }
        Disposition::DeadLetter(fields) => {
            let condition = ErrorCondition::Custom(Symbol::from(DEAD_LETTER));
            let why = AmqpErrorInfo::new(condition, None, Some(fields));
            receiver.reject(info, Some(why)).await
        }
    };
    settled.is_ok()
}

/// Fails a settlement that is not possible now.
pub(crate) fn fail(settlement: Settlement) {
    send_result(settlement.result_sender, false);
}

fn send_result(result_sender: ResultSender, is_settled: bool) {
    let Some(result_sender) = result_sender else { return };
    let result = if is_settled { Ok(()) } else { Err(connection_lost()) };
    // The caller may have timed out.
    let _ = result_sender.send(result);
}

fn connection_lost() -> Error {
    Error::unavailable(
        "the connection is lost and the delivery could not be settled; it is delivered again when its lock expires",
    )
}
