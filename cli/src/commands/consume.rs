//! `punctual consume`: prints the messages of a topic as they come. What was printed is settled, unless
//! it is to be handed back; nothing is received that is not printed.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use punctual::builtin::GROUP_DEFAULT;
use punctual::clock::{Clock, SystemClock, add, within};
use punctual::model::{DeadReason, Topic};
use punctual::policy::{AgainReason, Verdict};
use punctual::schedule::parse_duration;
use punctual::storage::Settlement;
use punctual::transport::{Consumer, Delivery, Receipt, Rejection, Subscription};

use super::carried::{TransportArgs, head, object, shown};
use super::storage::on_runtime;
use crate::terminal::tell;

/// The most messages taken at once.
const BATCH_MAX: usize = 100;
/// The most messages that are kept in hand to be handed back at the end.
const HELD_MAX: usize = 1_000;
/// How long the end may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// What to receive.
#[derive(Debug, Args)]
pub(crate) struct ConsumeArgs {
    #[command(flatten)]
    transport: TransportArgs,
    /// The topic.
    topic: String,
    /// The group; each gets its own copy, and whoever consumes as the same group shares them.
    #[arg(long, default_value = GROUP_DEFAULT)]
    group: String,
    /// Stop after this many messages; without it, when interrupted.
    #[arg(long, value_name = "N")]
    count: Option<usize>,
    /// Stop when nothing came for this long, such as 5s.
    #[arg(long, value_name = "LENGTH", value_parser = parse_duration)]
    wait: Option<Duration>,
    /// Print each message as one JSON object on a line.
    #[arg(long)]
    json: bool,
    /// Hand everything back at the end instead of settling it.
    #[arg(long)]
    no_ack: bool,
}

pub(crate) fn run(arguments: &ConsumeArgs) -> ExitCode {
    on_runtime(async {
        let topic = Topic::new(&arguments.topic)?;
        let opened = arguments.transport.open_existing().await?;
        let wanted = arguments.count.unwrap_or(usize::MAX);
        let subscription = Subscription {
            topic,
            group: arguments.group.clone(),
            prefetch: wanted.clamp(1, if arguments.no_ack { HELD_MAX } else { BATCH_MAX }),
        };
        let mut consumer = opened.transport.subscribe(subscription).await?;
        let mut held = Vec::new();
        let consumed = tokio::select! {
            biased;
            consumed = consume(arguments, &mut *consumer, &mut held) => consumed,
            () = punctual::signalled() => Ok(()),
        };
        for delivery in held {
            hand_back(delivery).await?;
        }
        consumer.close(add(SystemClock.now(), CLOSE_TIMEOUT)).await?;
        opened.close().await?;
        consumed
    })
}

async fn consume(
    arguments: &ConsumeArgs,
    consumer: &mut dyn Consumer,
    held: &mut Vec<Delivery>,
) -> Result<()> {
    let mut left = arguments.count.unwrap_or(usize::MAX);
    if !arguments.json {
        writeln!(io::stdout(), "{}", head())?;
    }
    while left > 0 {
        let receiving = consumer.receive(left.min(BATCH_MAX));
        let received = match arguments.wait {
            None => Some(receiving.await),
            Some(wait) => within(&SystemClock, add(SystemClock.now(), wait), receiving).await,
        };
        let Some(deliveries) = received else {
            tell(&format!("Nothing came for {:?}.", arguments.wait.unwrap_or_default()));
            return Ok(());
        };
        for delivery in deliveries? {
            print(&delivery, arguments.json)?;
            left = left.saturating_sub(1);
            if arguments.no_ack {
                held.push(delivery);
            } else {
                settle(delivery).await?;
            }
        }
        if held.len() >= HELD_MAX {
            bail!(
                "{HELD_MAX} messages are in hand, which is the most; say --count, or settle them"
            );
        }
    }
    Ok(())
}

fn print(delivery: &Delivery, as_json: bool) -> Result<()> {
    let Delivery { message, attempt, poison, .. } = delivery;
    let mut out = io::stdout().lock();
    if as_json {
        writeln!(out, "{}", object(message, *attempt, poison.as_deref()))?;
    } else {
        writeln!(out, "{}", shown(message, *attempt, poison.as_deref()))?;
    }
    out.flush()?;
    Ok(())
}

/// Done with it. What cannot be read goes where such messages are kept.
async fn settle(delivery: Delivery) -> Result<()> {
    let Delivery { poison, attempt, receipt, .. } = delivery;
    let now = SystemClock.now();
    match (receipt, poison) {
        (Receipt::Broker(receipt), None) => receipt.ack().await?,
        (Receipt::Broker(receipt), Some(error)) => {
            let (reason, error) = (DeadReason::Poison, Some(error.into()));
            receipt.reject(&Rejection { reason, error, attempt, at: now }).await?;
        }
        (Receipt::Lease(receipt), _) => {
            let done = Settlement::new(receipt.claimed.lease_ref(), Verdict::Done, None);
            receipt.storage.settle(vec![done], now).await?;
        }
    }
    Ok(())
}

/// As if it had never been received.
async fn hand_back(delivery: Delivery) -> Result<()> {
    match delivery.receipt {
        Receipt::Broker(receipt) => receipt.requeue(Duration::ZERO).await?,
        Receipt::Lease(receipt) => {
            let claimed = &receipt.claimed;
            let verdict = Verdict::Again {
                due_at: claimed.due_at,
                attempt: claimed.attempt.saturating_sub(1),
                crashes: claimed.crashes,
                snoozes: claimed.snoozes,
                error: None,
                why: AgainReason::Release,
            };
            let released = Settlement::new(claimed.lease_ref(), verdict, None);
            receipt.storage.settle(vec![released], SystemClock.now()).await?;
        }
    }
    Ok(())
}
