//! Worker to be killed: a process of Punctual with one handler, which writes to the ledger.
//!
//! It works until its standard input ends, so that no worker outlives its driver.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use punctual::clock::add;
use punctual::model::{HandlerOptions, MessageId};
use punctual::{CancelCause, Clock, Context, Event, Punctual, SystemClock};
use tokio::sync::oneshot;

use crate::fuse::{CrashPoint, Fuse, FuseSetting};
use crate::ledger::{Ledger, LedgerEvent};
use crate::open::open;
use crate::recording_storage::RecordingStorage;

/// Topic of all messages.
pub const TOPIC: &str = "work";
/// Lease duration: short, so that messages of a killed worker are soon due again.
pub const LEASE_DURATION: Duration = Duration::from_secs(2);

/// Work of a handler: milliseconds to wait, and number of messages to publish.
pub type Work = (u64, u32);

/// Options of a worker process.
#[derive(Clone, Debug, clap::Args)]
pub struct WorkerOptions {
    /// Name of the worker and of its ledger.
    #[arg(long)]
    pub name: String,
    /// Address of the storage.
    #[arg(long)]
    pub storage: String,
    /// Schema on PostgreSQL.
    #[arg(long)]
    pub schema: String,
    /// Folder of the ledgers.
    #[arg(long)]
    pub ledgers: PathBuf,
    /// Fuse to abort at, such as `settling:3:500`.
    #[arg(long)]
    pub fuse: Option<FuseSetting>,
}

/// Works until standard input ends.
pub async fn run(options: WorkerOptions) -> Result<()> {
    let ledger = Arc::new(Ledger::create(&options.ledgers, &options.name)?);
    let fuse = Fuse::new(options.fuse);
    let opened = open(&options.storage, &options.schema).await?;
    let recording = Arc::new(RecordingStorage::new(opened, ledger.clone(), fuse.clone()));
    let worker = Worker { ledger: ledger.clone(), fuse, recording: recording.clone() };
    // Crashes are unlimited, since no message causes them here.
    let handler_options = HandlerOptions::new().crashes_max(0);
    let punctual = builder(recording)
        .handler_with(TOPIC, handler_options, move |work: Work, context: Context| {
            let worker = worker.clone();
            async move { worker.handle(work, context).await }
        })
        .build()?;
    let mut events = punctual.events().listen();
    let listening = tokio::spawn(async move {
        while let Ok(event) = events.recv().await {
            if let Event::LeaseLost { message, .. } = &*event {
                ledger.write([LedgerEvent::LeaseLost(*message)]);
            }
        }
    });
    punctual.start().await?;
    wait_for_end_of_input().await;
    punctual.shutdown().await;
    listening.abort();
    Ok(())
}

/// Returns a builder with the settings common to driver and workers.
pub fn builder(recording: Arc<RecordingStorage>) -> punctual::Builder {
    Punctual::builder().storage(recording).queue("default", 8).options(|options| {
        options.lease_duration = LEASE_DURATION;
        options.rescue_interval = Duration::from_millis(500);
        options.poll_interval = Duration::from_millis(250);
        options.drain_timeout = Duration::from_secs(10);
    })
}

#[derive(Clone)]
struct Worker {
    ledger: Arc<Ledger>,
    fuse: Fuse,
    recording: Arc<RecordingStorage>,
}

impl Worker {
    async fn handle(&self, (milliseconds, children): Work, context: Context) {
        let id = context.message_id();
        let started = LedgerEvent::Started(id, context.attempt(), self.recording.token(id));
        self.ledger.write([started]);
        self.fuse.visit(CrashPoint::Started);
        if self.wait(milliseconds, &context).await == Some(CancelCause::LeaseLost) {
            return self.ledger.write([LedgerEvent::LeaseLost(id)]);
        }
        for _ in 0..children {
            self.publish_child(&context).await;
        }
        self.ledger.write([LedgerEvent::Finished(id)]);
        self.fuse.visit(CrashPoint::Finished);
    }

    /// Waits; returns the cause when the attempt is cancelled before.
    async fn wait(&self, milliseconds: u64, context: &Context) -> Option<CancelCause> {
        let until = add(SystemClock.now(), Duration::from_millis(milliseconds));
        tokio::select! {
            () = SystemClock.sleep_until(until) => None,
            cause = context.cancelled() => Some(cause),
        }
    }

    /// Publishes a message; one of a failed publish is not acknowledged and may be missing.
    async fn publish_child(&self, context: &Context) {
        let child = context.publisher().publish(TOPIC, &(0_u64, 0_u32)).await;
        if let Ok(published) = child {
            let id: MessageId = published.id;
            self.ledger.write([LedgerEvent::Acknowledged(id)]);
        }
    }
}

/// Waits until standard input ends.
pub(crate) async fn wait_for_end_of_input() {
    let (sender, receiver) = oneshot::channel();
    thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = sender.send(());
    });
    let _ = receiver.await;
}
