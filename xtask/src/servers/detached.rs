//! Detached servers, which outlive the command that starts them: `cargo xtask servers up`, `down`, `status`.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::record::{self, Record};
use super::{Durability, Owner, Place, Server, named, process};

/// Longest time from the start to the first response.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// Stops servers of killed runs and removes the records of ended servers; returns the stopped ones.
pub fn sweep(records: &Path) -> Result<Vec<Record>> {
    let abandoned = record::all(records).into_iter().filter(Record::is_abandoned);
    abandoned.map(|record| record.end(records).map(|()| record)).collect()
}

/// Returns every recorded server.
pub fn list(records: &Path) -> Vec<Record> {
    record::all(records)
}

/// Starts a server that outlives the command, or returns the running one.
///
/// Fails when it runs with another durability, because another program may be using it.
pub fn up(server: &dyn Server, durability: Durability, records: &Path) -> Result<Record> {
    sweep(records)?;
    if let Some(record) = kept(server.name(), records) {
        if record.place.durability != durability {
            bail!(
                "{} runs with another durability; `cargo xtask servers down` first",
                server.name()
            );
        }
        return Ok(record);
    }
    let place = Place::create(server.name(), durability)?;
    let record = Record { server: server.name().to_owned(), place, owner: Owner::Person };
    record.write(records)?;
    let started = serve(server, &record.place);
    if started.is_err() {
        record.end(records)?;
    }
    started.map(|()| record)
}

/// Stops only servers that `up` started, and returns their names.
pub fn down(records: &Path) -> Result<Vec<Record>> {
    sweep(records)?;
    let kept = record::all(records).into_iter().filter(|record| record.owner == Owner::Person);
    kept.map(|record| record.end(records).map(|()| record)).collect()
}

/// Returns the line for a shell.
pub fn export(record: &Record) -> Result<String> {
    let server = named(&record.server)?;
    Ok(format!("export {}={}", server.variable(), server.address(&record.place)))
}

fn kept(name: &str, records: &Path) -> Option<Record> {
    let mut all = record::all(records).into_iter();
    all.find(|record| record.server == name && record.owner == Owner::Person)
}

fn serve(server: &dyn Server, place: &Place) -> Result<()> {
    let mut command = server.prepare(place)?;
    let log = File::create(place.log())?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0)
        .spawn()
        .with_context(|| format!("start {}", server.name()))?;
    fs::write(place.pid_file(), child.id().to_string())?;
    let mut ended = false;
    let is_started = process::eventually(READY_WITHIN, || {
        ended = matches!(child.try_wait(), Ok(Some(_)));
        ended || server.is_ready(place)
    });
    if ended || !is_started {
        bail!("{} did not start:\n{}", server.name(), place.log_tail());
    }
    Ok(())
}
