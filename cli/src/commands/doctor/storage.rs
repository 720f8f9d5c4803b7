//! Storage: checks that it opens, its tables, its counts, and the permissions of its files.

use std::path::Path;

use anyhow::Result;
use punctual::clock::{Clock, SystemClock};
use punctual::model::MessageState;
use punctual_backends::{Address, SqliteAddress};

use super::Diagnosis;
use crate::commands::storage::{existing, open};

pub(super) async fn check(diagnosis: &mut Diagnosis, text: &str) -> Result<()> {
    let address = existing(text)?;
    diagnosis.fact("storage", format!("{address:?}"));
    if let Address::Sqlite(file) = &address {
        check_permissions(diagnosis, file);
        if !diagnosis.findings.is_empty() {
            return Ok(());
        }
        let contents = "bodies, secrets and password hashes";
        for ending in ["", "-wal", "-shm"] {
            let mut path = file.path.clone().into_os_string();
            path.push(ending);
            check_private(diagnosis, Path::new(&path), contents);
        }
    }
    if let Some(warning) = address.tls_warning() {
        let fix = "add sslmode=verify-full to the address, or sslmode=disable on a trusted network";
        diagnosis.problem("encryption", warning, fix);
    }
    let storage = match open(&address).await {
        Ok(storage) => storage,
        Err(error) => {
            diagnosis.problem(
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
        diagnosis.fact(what, value);
    }
    for state in [MessageState::Pending, MessageState::Running, MessageState::Dead] {
        diagnosis.fact(state.as_str(), counts.total(state).to_string());
    }
    diagnosis.fact("stale", counts.stale.to_string());
    for finding in found.findings {
        diagnosis.problem("storage", finding, "see docs/guide/storages.md, or restore a backup");
    }
    if counts.stale > 0 {
        diagnosis.problem(
            "stale",
            format!("{} messages are leased by processes without a heartbeat", counts.stale),
            "start a server with the role scheduler, worker or relay; it releases them within a minute",
        );
    }
    Ok(())
}

/// Checks that other users of the machine cannot read a file with secrets. New files of a storage are private; old ones
/// and those that other programs created may not be.
#[cfg(unix)]
pub(super) fn check_private(diagnosis: &mut Diagnosis, path: &Path, contents: &str) {
    use std::os::unix::fs::PermissionsExt;
    let Ok(metadata) = std::fs::metadata(path) else { return };
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o007 != 0 {
        let path = path.display();
        diagnosis.problem(
            "permissions",
            format!(
                "every user of this machine can read {path} (mode {mode:o}), which contains {contents}"
            ),
            format!("chmod o-rwx {path}"),
        );
    }
}

#[cfg(not(unix))]
pub(super) fn check_private(_: &mut Diagnosis, _: &Path, _: &str) {}

/// Checks that the file and its folder are writable: the WAL file is in the same folder.
fn check_permissions(diagnosis: &mut Diagnosis, file: &SqliteAddress) {
    let path = &file.path;
    if let Err(error) = std::fs::OpenOptions::new().append(true).open(path) {
        let found = format!("{} is not writable: {error}", path.display());
        diagnosis.problem(
            "permissions",
            found,
            "make the user of the server its owner (chown, chmod u+rw)",
        );
        return;
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => std::path::Path::new("."),
    };
    if let Err(error) = tempfile::tempfile_in(folder) {
        let found = format!("the folder {} is not writable: {error}", folder.display());
        diagnosis.problem(
            "permissions",
            found,
            "make the folder writable, because the WAL file is in it",
        );
    } else {
        diagnosis.fact("permissions", "ok");
    }
}
