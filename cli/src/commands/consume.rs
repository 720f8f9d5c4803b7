//! `punctual consume`: prints the messages of a topic as they arrive, and acknowledges them unless `--no-ack` is given.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use punctual::backend::transport::{Consumer, Delivery, Rejection, Subscription};
use punctual::builtin::GROUP_DEFAULT;
use punctual::clock::{Clock, SystemClock, add, within};
use punctual::model::{DeadReason, Topic};
use punctual::schedule::parse_duration;

use super::storage::on_runtime;
use super::transport::{TransportArgs, header_row, message_json, message_row};
use crate::terminal::notice;

/// Largest number of messages in one receive call.
const BATCH_MAX: usize = 100;
/// Largest number of messages kept in flight with `--no-ack`.
const IN_FLIGHT_MAX: usize = 1_000;
/// Longest time to close the consumer.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Subscription, and when to stop.
#[derive(Debug, Args)]
pub(crate) struct ConsumeArgs {
    #[command(flatten)]
    transport: TransportArgs,
    /// Topic to receive.
    topic: String,
    /// Consumer group; each group gets every message, and the consumers of one group share them.
    #[arg(long, default_value = GROUP_DEFAULT)]
    group: String,
    /// Stop after this many messages; default: run until interrupted.
    #[arg(long, value_name = "N")]
    count: Option<usize>,
    /// Stop when no message arrived for this long, such as 5s.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    wait: Option<Duration>,
    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
    /// Requeue all messages at the end instead of acknowledging them.
    #[arg(long)]
    no_ack: bool,
}

pub(crate) fn run(arguments: &ConsumeArgs) -> ExitCode {
    on_runtime(async {
        let topic = Topic::new(&arguments.topic)?;
        let opened = arguments.transport.open_existing().await?;
        let count = arguments.count.unwrap_or(usize::MAX);
        let subscription = Subscription {
            topic,
            group: arguments.group.clone(),
            prefetch: count.clamp(1, if arguments.no_ack { IN_FLIGHT_MAX } else { BATCH_MAX }),
        };
        let mut consumer = opened.transport.subscribe(subscription).await?;
        let mut in_flight = Vec::new();
        let consumed = tokio::select! {
            biased;
            consumed = consume(arguments, &mut *consumer, &mut in_flight) => consumed,
            () = punctual::signalled() => Ok(()),
        };
        for delivery in in_flight {
            delivery.receipt.release(SystemClock.now()).await?;
        }
        consumer.close(add(SystemClock.now(), CLOSE_TIMEOUT)).await?;
        opened.close().await?;
        consumed
    })
}

async fn consume(
    arguments: &ConsumeArgs,
    consumer: &mut dyn Consumer,
    in_flight: &mut Vec<Delivery>,
) -> Result<()> {
    let mut remaining = arguments.count.unwrap_or(usize::MAX);
    if !arguments.json {
        writeln!(io::stdout(), "{}", header_row())?;
    }
    while remaining > 0 {
        let receiving = consumer.receive(remaining.min(BATCH_MAX));
        let received = match arguments.wait {
            None => Some(receiving.await),
            Some(wait) => within(&SystemClock, add(SystemClock.now(), wait), receiving).await,
        };
        let Some(deliveries) = received else {
            notice(&format!("No message arrived for {:?}.", arguments.wait.unwrap_or_default()));
            return Ok(());
        };
        for delivery in deliveries? {
            print(&delivery, arguments.json)?;
            remaining = remaining.saturating_sub(1);
            if arguments.no_ack {
                in_flight.push(delivery);
            } else {
                settle(delivery).await?;
            }
        }
        if in_flight.len() >= IN_FLIGHT_MAX {
            bail!(
                "the limit of {IN_FLIGHT_MAX} messages in flight is reached; add --count, or leave --no-ack out"
            );
        }
    }
    Ok(())
}

fn print(delivery: &Delivery, as_json: bool) -> Result<()> {
    let Delivery { message, attempt, poison, .. } = delivery;
    let mut out = io::stdout().lock();
    if as_json {
        writeln!(out, "{}", message_json(message, *attempt, poison.as_deref()))?;
    } else {
        writeln!(out, "{}", message_row(message, *attempt, poison.as_deref()))?;
    }
    out.flush()?;
    Ok(())
}

/// Acknowledges a message; one that cannot be read becomes a dead letter.
async fn settle(delivery: Delivery) -> Result<()> {
    let Delivery { poison, attempt, receipt, .. } = delivery;
    let now = SystemClock.now();
    match poison {
        None => receipt.ack(now).await?,
        Some(error) => {
            let (reason, error) = (DeadReason::Poison, Some(error.into()));
            receipt.reject(&Rejection { reason, error, attempt, at: now }).await?;
        }
    }
    Ok(())
}
