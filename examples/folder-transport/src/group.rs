//! Group: the folders of one group of one topic. Moving a file is atomic, so it is what claims, releases and settles.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use punctual::backend::transport::address::percent_decode;
use punctual::backend::wire::Wire;
use punctual::jiff::Timestamp;
use punctual::model::Topic;
use punctual::{Error, Result};

use crate::name::{FileName, escaped};
use crate::{failed, topic_folder};

const PENDING: &str = "pending";
const CLAIMED: &str = "claimed";
const LOCK: &str = "lock";
/// Extension of a file that is still being written.
const DRAFT: &str = "new";
/// Every folder of a group.
const FOLDERS: [&str; 4] = [PENDING, CLAIMED, "dead", "invalid"];

/// One group of a topic, and the claims of one of its consumers.
pub(crate) struct Group {
    pub(crate) topic: Topic,
    pub(crate) name: String,
    folder: PathBuf,
    /// Folder of this consumer's claims.
    claims: PathBuf,
    /// Locked while the consumer exists; the system unlocks it when the process ends.
    _lock: Option<File>,
}

/// A file that was claimed: its name, and the message in it.
pub(crate) struct Claimed {
    pub(crate) name: FileName,
    pub(crate) wire: Wire,
}

impl Group {
    /// Returns the groups of a topic, for publishing.
    pub(crate) fn all(root: &Path, topic: &Topic) -> Result<Vec<Self>> {
        let folder = topic_folder(root, topic);
        let names = entries(&folder)?;
        let groups = names.iter().filter_map(|name| {
            let (folder, claims) = (folder.join(name), PathBuf::new());
            Some(Self {
                topic: topic.clone(),
                name: percent_decode(name)?,
                folder,
                claims,
                _lock: None,
            })
        });
        Ok(groups.collect())
    }

    /// Creates the folders of a group, with one for the claims of a new consumer.
    pub(crate) fn open(root: &Path, topic: Topic, name: &str) -> Result<Arc<Self>> {
        if name.is_empty() || name.chars().any(char::is_control) {
            return Err(Error::invalid(format!(
                "the group {name:?} must have printable characters"
            )));
        }
        let folder = topic_folder(root, &topic).join(escaped(name));
        for kind in FOLDERS {
            create(&folder.join(kind))?;
        }
        let id = FileName::new(punctual::Clock::now(&punctual::SystemClock), Duration::ZERO).id;
        let claims = folder.join(CLAIMED).join(id);
        // Locked before the folder has its final name, so that no other consumer takes it for abandoned.
        let draft = claims.with_extension("new");
        create(&draft)?;
        let lock = draft.join(LOCK);
        let lock = File::create(&lock).map_err(|error| failed("create", &lock, &error))?;
        lock.lock().map_err(|error| failed("lock", &draft, &error))?;
        fs::rename(&draft, &claims).map_err(|error| failed("create", &claims, &error))?;
        Ok(Arc::new(Self { topic, name: name.to_owned(), folder, claims, _lock: Some(lock) }))
    }

    /// Returns the path of a pending message.
    pub(crate) fn pending(&self, name: &FileName) -> PathBuf {
        self.folder.join(PENDING).join(name.to_string())
    }

    /// Claims up to `limit` due messages, in order.
    pub(crate) fn claim(&self, now: Timestamp, limit: usize) -> Result<Vec<Claimed>> {
        let mut due: Vec<FileName> = entries(&self.folder.join(PENDING))?
            .iter()
            .filter_map(|name| name.parse().ok())
            .filter(|name: &FileName| name.due <= now.as_microsecond())
            .collect();
        due.sort();
        let mut claimed = Vec::new();
        for name in due {
            if claimed.len() == limit {
                break;
            }
            let (from, name) = (self.pending(&name), name.delivered());
            // Another consumer was faster when the file is gone.
            if fs::rename(from, self.claimed(&name)).is_ok() {
                claimed.push(Claimed { wire: read(&self.claimed(&name))?, name });
            }
        }
        Ok(claimed)
    }

    /// Makes a claimed message pending again.
    pub(crate) fn release(&self, name: &FileName, now: Timestamp, delay: Duration) -> Result<()> {
        let (from, to) = (self.claimed(name), self.pending(&name.again(now, delay)));
        fs::rename(&from, to).map_err(|error| failed("release", &from, &error))
    }

    /// Removes a claimed message.
    pub(crate) fn remove(&self, name: &FileName) -> Result<()> {
        let path = self.claimed(name);
        fs::remove_file(&path).map_err(|error| failed("remove", &path, &error))
    }

    /// Stores a dead letter, then removes the claimed message: a crash between the two leaves both.
    pub(crate) fn bury(&self, name: &FileName, letter: &Wire, invalid: bool) -> Result<()> {
        let folder = self.folder.join(if invalid { "invalid" } else { "dead" });
        write(&folder.join(name.to_string()), letter)?;
        self.remove(name)
    }

    /// Makes the claims of consumers pending again whose process has died.
    pub(crate) fn recover(&self) -> Result<()> {
        let folder = self.folder.join(CLAIMED);
        for id in entries(&folder)? {
            let claims = folder.join(&id);
            let is_draft = claims.extension().is_some();
            let Ok(lock) = File::open(claims.join(LOCK)) else { continue };
            if is_draft || claims == self.claims || lock.try_lock().is_err() {
                continue;
            }
            for name in entries(&claims)?.iter().filter(|name| *name != LOCK) {
                let from = claims.join(name);
                fs::rename(&from, self.folder.join(PENDING).join(name))
                    .map_err(|error| failed("release", &from, &error))?;
            }
            // Fails when another consumer recovers the same claims.
            let _ = fs::remove_dir_all(&claims);
        }
        Ok(())
    }

    fn claimed(&self, name: &FileName) -> PathBuf {
        self.claims.join(name.to_string())
    }
}

/// Returns the names in a folder; none when it is missing.
pub(crate) fn entries(folder: &Path) -> Result<Vec<String>> {
    let listed = match fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed.map_err(|error| failed("list", folder, &error))?,
    };
    Ok(listed.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect())
}

fn create(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|error| failed("create", folder, &error))
}

/// Returns whether a file is still being written.
pub(crate) fn is_draft(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == DRAFT)
}

/// Writes a message where no reader sees it, waits for the disk, and moves it to its place.
pub(crate) fn write(path: &Path, wire: &Wire) -> Result<()> {
    let draft = path.with_extension(DRAFT);
    let head = serde_json::json!({ "content_type": wire.content_type, "headers": wire.headers });
    let written = File::create(&draft).and_then(|mut file| {
        writeln!(file, "{head}")?;
        file.write_all(&wire.body)?;
        file.sync_data()
    });
    written.and_then(|()| fs::rename(&draft, path)).map_err(|error| failed("write", path, &error))
}

/// Reads a message: a line of JSON with the headers, then the body. Without that line all of it is the body.
pub(crate) fn read(path: &Path) -> Result<Wire> {
    let bytes = Bytes::from(fs::read(path).map_err(|error| failed("read", path, &error))?);
    Ok(parse(&bytes).unwrap_or(Wire { headers: Vec::new(), body: bytes, content_type: "".into() }))
}

fn parse(bytes: &Bytes) -> Option<Wire> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let head: serde_json::Value = serde_json::from_slice(&bytes[..end]).ok()?;
    let headers = head.get("headers")?.as_array()?.iter().map(|pair| {
        Some((pair.get(0)?.as_str()?.to_owned().into(), pair.get(1)?.as_str()?.to_owned()))
    });
    Some(Wire {
        headers: headers.collect::<Option<Vec<_>>>()?,
        body: bytes.slice(end + 1..),
        content_type: head.get("content_type")?.as_str()?.to_owned().into(),
    })
}
