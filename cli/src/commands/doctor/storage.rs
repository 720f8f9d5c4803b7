//! A storage: whether it opens, its tables, what waits in it, and whether a file can be written.

use std::path::Path;

use anyhow::Result;
use punctual::clock::{Clock, SystemClock};
use punctual::model::MessageState;
use punctual_connect::{Address, SqliteAddress};

use super::Checkup;
use crate::commands::storage::{existing, open};

pub(super) async fn examine(checkup: &mut Checkup, text: &str) -> Result<()> {
    let address = existing(text)?;
    checkup.fact("storage", format!("{address:?}"));
    if let Address::Sqlite(file) = &address {
        permissions(checkup, file);
        if !checkup.findings.is_empty() {
            return Ok(());
        }
        let holds = "bodies, secrets and hashes of passwords";
        for ending in ["", "-wal", "-shm"] {
            let mut path = file.path.clone().into_os_string();
            path.push(ending);
            private(checkup, Path::new(&path), holds);
        }
    }
    if let Some(warning) = address.tls_warning() {
        let fix = "add sslmode=verify-full to the address, or sslmode=disable where the network is trusted";
        checkup.wrong("encryption", warning, fix);
    }
    let storage = match open(&address).await {
        Ok(storage) => storage,
        Err(error) => {
            checkup.wrong(
                "storage",
                format!("cannot be opened: {error}"),
                "check the address, whether the database runs, and the rights of its user",
            );
            return Ok(());
        }
    };
    let found = storage.check().await?;
    let counts = storage.inspect.counts(SystemClock.now()).await?;
    storage.close().await?;
    for (what, value) in found.facts {
        checkup.fact(what, value);
    }
    for state in [MessageState::Pending, MessageState::Running, MessageState::Dead] {
        checkup.fact(state.as_str(), counts.total(state).to_string());
    }
    checkup.fact("stale", counts.stale.to_string());
    for finding in found.findings {
        checkup.wrong("storage", finding, "see docs/guide/storages.md, or restore a backup");
    }
    if counts.stale > 0 {
        checkup.wrong(
            "stale",
            format!("{} messages are held by processes that no longer answer", counts.stale),
            "start a worker with the upkeep role; it frees them within a minute",
        );
    }
    Ok(())
}

/// Other users of the machine must not read what holds secrets. New files of a storage are made so; this is about old
/// ones, and about those that others have made.
#[cfg(unix)]
pub(super) fn private(checkup: &mut Checkup, path: &Path, holds: &str) {
    use std::os::unix::fs::PermissionsExt;
    let Ok(facts) = std::fs::metadata(path) else { return };
    let mode = facts.permissions().mode() & 0o777;
    if mode & 0o007 != 0 {
        let path = path.display();
        checkup.wrong(
            "permissions",
            format!(
                "every user of this machine can read {path} (mode {mode:o}), which holds {holds}"
            ),
            format!("chmod o-rwx {path}"),
        );
    }
}

#[cfg(not(unix))]
pub(super) fn private(_: &mut Checkup, _: &Path, _: &str) {}

/// The file and its folder must both be writable: the journal stands beside it.
fn permissions(checkup: &mut Checkup, file: &SqliteAddress) {
    let path = &file.path;
    if let Err(error) = std::fs::OpenOptions::new().append(true).open(path) {
        let found = format!("{} cannot be written: {error}", path.display());
        checkup.wrong(
            "permissions",
            found,
            "give its owner to the user of the server (chown, chmod u+rw)",
        );
        return;
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => std::path::Path::new("."),
    };
    if let Err(error) = tempfile::tempfile_in(folder) {
        let found = format!("nothing can be written in {}: {error}", folder.display());
        checkup.wrong(
            "permissions",
            found,
            "the journal stands beside the file; make the folder writable",
        );
    } else {
        checkup.fact("permissions", "the file and its folder can be written");
    }
}
