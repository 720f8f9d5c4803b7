//! Storage commands: their address argument, opening a storage, and the runtime.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use punctual_backends::{Address, OpenedStorage, open_address};

use crate::error::{Code, CommandError, report};

/// Address of a storage.
#[derive(Debug, Args)]
pub(crate) struct StorageArgs {
    /// Address of the storage: `sqlite:path/to/file.db` or `postgres://user@host/database`.
    #[arg(
        long = "storage",
        value_name = "ADDRESS",
        env = "PUNCTUAL_STORAGE",
        hide_env_values = true,
        default_value = "sqlite:punctual.db"
    )]
    pub(crate) address: String,
}

/// Parses the address of an existing storage; fails when its file does not exist.
pub(crate) fn existing(text: &str) -> Result<Address> {
    let address = Address::parse(text)?;
    if let Some(file) = missing_file(&address) {
        let text = format!("there is no file {}; check the address", file.display());
        return Err(CommandError::new(Code::NotFound, text).into());
    }
    Ok(address)
}

/// Returns the file of a storage when it does not exist.
pub(crate) fn missing_file(address: &Address) -> Option<&Path> {
    match address {
        Address::Sqlite(file) if !file.path.exists() => Some(&file.path),
        _ => None,
    }
}

pub(crate) async fn open(address: &Address) -> Result<OpenedStorage> {
    Ok(open_address(address).await?)
}

/// Runs a command to its end, reports its error and returns the exit code.
pub(crate) fn on_runtime(work: impl Future<Output = Result<()>>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(work)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report(&error),
    }
}
