//! What commands that work on a storage share: its address, opening it, and the runtime.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use punctual_connect::{Address, Opened, open_address};

use crate::failure::{Code, Failure, report};

/// Which storage.
#[derive(Debug, Args)]
pub(crate) struct StorageArgs {
    /// Where the storage is: `sqlite:path/to/file.db` or `postgres://user@host/database`.
    #[arg(
        long = "storage",
        value_name = "ADDRESS",
        env = "PUNCTUAL_STORAGE",
        hide_env_values = true,
        default_value = "sqlite:punctual.db"
    )]
    pub(crate) address: String,
}

/// The address of a storage that is there already; a file is not made by looking at it.
pub(crate) fn existing(text: &str) -> Result<Address> {
    let address = Address::parse(text)?;
    if let Some(file) = missing_file(&address) {
        let text = format!("there is no file {}; check the address", file.display());
        return Err(Failure::new(Code::Missing, text).into());
    }
    Ok(address)
}

/// The file of a storage, where it is not there yet.
pub(crate) fn missing_file(address: &Address) -> Option<&Path> {
    match address {
        Address::Sqlite(file) if !file.path.exists() => Some(&file.path),
        _ => None,
    }
}

pub(crate) async fn open(address: &Address) -> Result<Opened> {
    Ok(open_address(address).await?)
}

/// Runs a command to its end and says how it went.
pub(crate) fn on_runtime(work: impl Future<Output = Result<()>>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(work)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report(&error),
    }
}
