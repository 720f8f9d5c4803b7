//! Record of a started server: one small text file each, in a folder under `target/`.
//!
//! A record is written before the server starts and removed after it ended. A killed run leaves its record, by which
//! the next run stops the server.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::place::{self, Durability, Place};
use super::{named, process};

/// The owner, who stops the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The user, with `cargo xtask servers down`.
    Person,
    /// The process of this id, when its work is done.
    Run(u32),
}

/// A server that was started and not stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The product.
    pub server: String,
    /// Its folder and port.
    pub place: Place,
    /// The owner.
    pub owner: Owner,
}

impl Record {
    /// The file of this record in the folder of records.
    pub fn file(&self, records: &Path) -> PathBuf {
        records.join(format!("{}-{}", self.server, self.place.port))
    }

    pub(super) fn write(&self, records: &Path) -> Result<()> {
        fs::create_dir_all(records).with_context(|| format!("create {}", records.display()))?;
        let file = self.file(records);
        fs::write(&file, self.to_text()).with_context(|| format!("write {}", file.display()))
    }

    /// Age of the file.
    pub fn age(&self, records: &Path) -> Option<Duration> {
        fs::metadata(self.file(records)).ok()?.modified().ok()?.elapsed().ok()
    }

    /// Returns the process id, while it runs.
    pub fn live_pid(&self) -> Option<u32> {
        self.place.pid().filter(|pid| process::is_ours(*pid, &self.place.folder))
    }

    /// Returns whether its owner has ended.
    pub fn is_abandoned(&self) -> bool {
        match self.owner {
            Owner::Person => self.live_pid().is_none(),
            Owner::Run(pid) => !process::is_alive(pid),
        }
    }

    /// Stops the server if it runs, removes its folder and the record.
    pub fn end(&self, records: &Path) -> Result<()> {
        if let Some(pid) = self.live_pid() {
            // Other programs end on the usual signal.
            let signal = named(&self.server).map_or("TERM", |server| server.stop_signal());
            process::end(pid, &self.place.folder, signal)?;
        }
        self.place.remove();
        let file = self.file(records);
        match fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("remove {}", file.display()))
            }
            _ => Ok(()),
        }
    }

    fn to_text(&self) -> String {
        let Place { folder, port, durability } = &self.place;
        let durable = *durability == Durability::Durable;
        let owner = match self.owner {
            Owner::Person => "person".to_owned(),
            Owner::Run(pid) => pid.to_string(),
        };
        format!(
            "server={}\nport={port}\ndurable={durable}\nowner={owner}\nfolder={}\n",
            self.server,
            folder.display()
        )
    }

    fn from_text(text: &str) -> Option<Self> {
        let value = |key: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once('='));
            lines.find(|(name, _)| *name == key).map(|(_, value)| value)
        };
        let durability = match value("durable")? {
            "true" => Durability::Durable,
            _ => Durability::Relaxed,
        };
        let owner = match value("owner")? {
            "person" => Owner::Person,
            pid => Owner::Run(pid.parse().ok()?),
        };
        let folder = PathBuf::from(value("folder")?);
        let place = Place { folder, port: value("port")?.parse().ok()?, durability };
        Some(Self { server: value("server")?.to_owned(), place, owner })
    }
}

/// Returns every record by name; other files are ignored.
pub(super) fn all(records: &Path) -> Vec<Record> {
    let entries = fs::read_dir(records).into_iter().flatten().flatten();
    let texts = entries.filter_map(|entry| fs::read_to_string(entry.path()).ok());
    let mut all: Vec<Record> = texts.filter_map(|text| Record::from_text(&text)).collect();
    all.retain(|record| is_scratch(&record.place.folder));
    all.sort_by_key(|record| (record.server.clone(), record.place.port));
    all
}

/// Only a folder that `Place::create` could have created is removed because of a record.
fn is_scratch(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    folder.is_absolute() && place::is_scratch_name(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(owner: Owner) -> Record {
        let folder = PathBuf::from("/tmp/punctual-postgres-12-4711");
        let place = Place { folder, port: 4711, durability: Durability::Durable };
        Record { server: "postgres".to_owned(), place, owner }
    }

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        for owner in [Owner::Person, Owner::Run(12)] {
            let record = sample(owner);
            assert_eq!(Record::from_text(&record.to_text()), Some(record));
        }
        assert_eq!(Record::from_text("server=postgres\n"), None);
        assert_eq!(Record::from_text(""), None);
    }

    #[test]
    fn servers_of_a_dead_run_are_abandoned() {
        assert!(sample(Owner::Run(u32::MAX)).is_abandoned());
        assert!(!sample(Owner::Run(std::process::id())).is_abandoned());
        assert!(sample(Owner::Person).is_abandoned(), "nothing runs there");
    }

    #[test]
    fn no_other_folder_is_ever_removed() {
        assert!(is_scratch(&sample(Owner::Person).place.folder));
        for other in ["/", "/tmp", "punctual-postgres-1-2", "/etc/punctual-x", "/tmp/punctual-"] {
            assert!(!is_scratch(Path::new(other)), "{other}");
        }
    }
}
