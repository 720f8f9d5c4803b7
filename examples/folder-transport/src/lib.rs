//! Folder transport: messages are files, a shared folder is the broker.
//!
//! It is the example of `docs/guide/write-a-transport.md`: complete, small, and tried by the same suite as every other
//! transport. It suits a test or a few machines with a shared disk, not a busy queue.

mod consumer;
mod group;
mod name;
mod receipt;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use punctual::backend::transport::address::percent_decode;
use punctual::backend::transport::{
    AcknowledgeMode, AttemptCount, Capabilities, Consumer, Delay, Ordering, OutgoingMessage,
    Subscription, Transport,
};
use punctual::backend::wire::Wire;
use punctual::jiff::Timestamp;
use punctual::model::Topic;
use punctual::{Clock as _, Error, Result, SystemClock};

use self::consumer::FolderConsumer;
use self::group::{Group, write};
use self::name::{FileName, escaped};

/// Carries messages through the files of a folder: `TOPIC/GROUP/pending/`, `claimed/`, `dead/` and `invalid/`.
///
/// A topic without a group keeps nothing: subscribe before publishing.
pub struct FolderTransport {
    root: Arc<PathBuf>,
}

impl FolderTransport {
    /// Opens a folder, which is created when it is missing.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self> {
        let root = root.into();
        std::fs::create_dir_all(&root).map_err(|error| failed("open", &root, &error))?;
        Ok(Self { root: Arc::new(root) })
    }

    /// Returns the messages in the folder `dead` or `invalid` of a group, oldest first.
    pub fn letters(&self, topic: &Topic, group: &str, folder: &str) -> Result<Vec<Wire>> {
        let folder = topic_folder(&self.root, topic).join(escaped(group)).join(folder);
        let mut names = group::entries(&folder)?;
        names.retain(|name| !group::is_draft(name));
        names.sort();
        names.iter().map(|name| group::read(&folder.join(name))).collect()
    }

    /// Publishes a body with exactly these headers, as a program would that does not know Punctual.
    pub fn put(&self, topic: &Topic, body: &[u8], headers: &[(&str, &str)]) -> Result<()> {
        let headers =
            headers.iter().map(|(name, value)| ((*name).to_owned().into(), (*value).to_owned()));
        let wire = Wire {
            headers: headers.collect(),
            body: body.to_vec().into(),
            content_type: "".into(),
        };
        let name = FileName::new(SystemClock.now(), std::time::Duration::ZERO);
        Group::all(&self.root, topic)?
            .iter()
            .try_for_each(|group| write(&group.pending(&name), &wire))
    }
}

impl fmt::Debug for FolderTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FolderTransport").field("root", &self.root).finish()
    }
}

#[async_trait]
impl Transport for FolderTransport {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            // The due time is the beginning of a file's name, so any delay costs the same.
            publish_delay: Delay::Any,
            requeue_delay: Delay::Any,
            dead_letter: true,
            ordering: Ordering::Total,
            fan_out: true,
            attempts: AttemptCount::Counted,
            acknowledge: AcknowledgeMode::Single,
            durable: true,
            payload_max: None,
        }
    }

    async fn publish(&self, batch: Vec<OutgoingMessage>, now: Timestamp) -> Result<()> {
        let root = self.root.clone();
        blocking(move || {
            for outgoing in &batch {
                let wire = Wire::of(outgoing)?;
                let name = FileName::new(now, outgoing.delay);
                for group in Group::all(&root, &outgoing.message.topic)? {
                    if outgoing.group.as_ref().is_none_or(|only| *only == group.name) {
                        write(&group.pending(&name), &wire)?;
                    }
                }
            }
            Ok(())
        })
        .await
    }

    async fn subscribe(&self, subscription: Subscription) -> Result<Box<dyn Consumer>> {
        let (root, topic) = (self.root.clone(), subscription.topic.clone());
        let group = blocking(move || Group::open(&root, topic, &subscription.group)).await?;
        Ok(Box::new(FolderConsumer::start(group, subscription.prefetch)))
    }

    async fn topics(&self) -> Result<Vec<Topic>> {
        let root = self.root.clone();
        blocking(move || {
            let names = group::entries(&root)?;
            let mut topics: Vec<Topic> =
                names.iter().filter_map(|name| Topic::new(percent_decode(name)?).ok()).collect();
            topics.sort();
            Ok(topics)
        })
        .await
    }
}

/// Runs file operations on a thread that may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|_| Err(Error::internal("a file operation panicked")))
}

/// An error of a file operation. All of them are temporary for the caller: the disk may be available again.
fn failed(action: &str, path: &std::path::Path, error: &std::io::Error) -> Error {
    Error::unavailable(format!("cannot {action} {}: {error}", path.display()))
}

/// Returns the folder of a topic.
fn topic_folder(root: &std::path::Path, topic: &Topic) -> PathBuf {
    root.join(escaped(topic.as_str()))
}
