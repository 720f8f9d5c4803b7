//! The worker that is killed: a process of Punctual with one handler, which writes to the ledger.
//!
//! It works until its standard input ends, so that no worker survives its driver.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use punctual::clock::add;
use punctual::model::{HandlerOptions, MessageId};
use punctual::{Cause, Clock, Context, Event, Punctual, SystemClock};
use tokio::sync::oneshot;

use crate::fuse::{Fuse, FuseLength, Point};
use crate::ledger::{Ledger, Line};
use crate::open::open;
use crate::watched::Watched;

/// The topic of all messages.
pub const TOPIC: &str = "work";
/// Short, so that a killed worker's messages come back soon.
pub const LEASE_DURATION: Duration = Duration::from_secs(2);

/// What a handler does: this many milliseconds of waiting, and so many messages of its own.
pub type Work = (u64, u32);

/// Which worker.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Its name, which is the name of its ledger.
    #[arg(long)]
    pub name: String,
    /// The storage it works on.
    #[arg(long)]
    pub storage: String,
    /// The schema, where there are schemas.
    #[arg(long)]
    pub schema: String,
    /// The folder of the ledgers.
    #[arg(long)]
    pub ledgers: PathBuf,
    /// Where it ends without warning, such as `settling:3:500`.
    #[arg(long)]
    pub fuse: Option<FuseLength>,
}

/// Works until standard input ends.
pub async fn run(options: Options) -> Result<()> {
    let ledger = Arc::new(Ledger::create(&options.ledgers, &options.name)?);
    let fuse = Fuse::new(options.fuse);
    let opened = open(&options.storage, &options.schema).await?;
    let watched = Arc::new(Watched::new(opened, ledger.clone(), fuse.clone()));
    let worker = Worker { ledger: ledger.clone(), fuse, watched: watched.clone() };
    // However often a message's process is killed, that is never the message's own failure here.
    let handler_options = HandlerOptions::new().crashes_max(0);
    let punctual = process(watched)
        .handler_with(TOPIC, handler_options, move |work: Work, context: Context| {
            let worker = worker.clone();
            async move { worker.handle(work, context).await }
        })
        .build()?;
    let mut events = punctual.events().listen();
    let listening = tokio::spawn(async move {
        while let Ok(event) = events.recv().await {
            if let Event::LeaseLost { message, .. } = &*event {
                ledger.write([Line::LeaseLost(*message)]);
            }
        }
    });
    punctual.start().await?;
    end_of_input().await;
    punctual.shutdown().await;
    listening.abort();
    Ok(())
}

/// What driver and workers have in common.
pub fn process(watched: Arc<Watched>) -> punctual::Builder {
    Punctual::builder().storage(watched).queue("default", 8).options(|options| {
        options.lease_duration = LEASE_DURATION;
        options.rescue_interval = Duration::from_millis(500);
        options.poll_interval = Duration::from_millis(250);
        options.drain = Duration::from_secs(10);
    })
}

#[derive(Clone)]
struct Worker {
    ledger: Arc<Ledger>,
    fuse: Fuse,
    watched: Arc<Watched>,
}

impl Worker {
    async fn handle(&self, (milliseconds, children): Work, context: Context) {
        let id = context.message_id();
        let started = Line::Started(id, context.attempt(), self.watched.token(id));
        self.ledger.write([started]);
        self.fuse.visit(Point::Started);
        if self.wait(milliseconds, &context).await == Some(Cause::LeaseLost) {
            return self.ledger.write([Line::LeaseLost(id)]);
        }
        for _ in 0..children {
            self.publish_child(&context).await;
        }
        self.ledger.write([Line::Finished(id)]);
        self.fuse.visit(Point::Finished);
    }

    /// Waits; answers why it has to stop, if it has to before.
    async fn wait(&self, milliseconds: u64, context: &Context) -> Option<Cause> {
        let until = add(SystemClock.now(), Duration::from_millis(milliseconds));
        tokio::select! {
            () = SystemClock.sleep_until(until) => None,
            cause = context.cancelled() => Some(cause),
        }
    }

    /// A publish that fails was not acknowledged, so nobody may rely on it.
    async fn publish_child(&self, context: &Context) {
        let child = context.publisher().publish(TOPIC, &(0_u64, 0_u32)).await;
        if let Ok(published) = child {
            let id: MessageId = published.id;
            self.ledger.write([Line::Acknowledged(id)]);
        }
    }
}

/// Waits until nobody holds the other end of standard input any more.
pub(crate) async fn end_of_input() {
    let (tell, told) = oneshot::channel();
    thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = tell.send(());
    });
    let _ = told.await;
}
