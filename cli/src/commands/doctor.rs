//! `punctual doctor`: looks at a storage and says what is wrong with it, if anything is.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use punctual::clock::{Clock, SystemClock};
use punctual::model::State;
use punctual_connect::Opened;

use super::storage::{StorageArgs, existing, on_runtime, open};

/// Which storage to look at.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    storage: StorageArgs,
}

/// Exit code 0 when all is well, 1 when something is not.
pub(crate) fn run(arguments: &DoctorArgs) -> ExitCode {
    let mut healthy = true;
    let ran = on_runtime(async {
        let address = existing(&arguments.storage.address)?;
        let storage = open(&address).await?;
        healthy = examine(&storage, &format!("{address:?}")).await?;
        storage.close().await?;
        Ok(())
    });
    if healthy { ran } else { ExitCode::FAILURE }
}

async fn examine(storage: &Opened, name: &str) -> Result<bool> {
    let checkup = storage.check().await?;
    let counts = storage.inspect.counts(SystemClock.now()).await?;
    let mut facts = checkup.facts;
    for state in [State::Pending, State::Running, State::Dead] {
        facts.push((state.as_str(), counts.total(state).to_string()));
    }
    facts.push(("stale", counts.stale.to_string()));
    let width = facts.iter().map(|(what, _)| what.len()).max().unwrap_or_default();
    let mut out = io::stdout().lock();
    writeln!(out, "{name}")?;
    for (what, found) in facts {
        writeln!(out, "  {what:width$}  {found}")?;
    }
    for finding in &checkup.findings {
        writeln!(out, "! {finding}")?;
    }
    if checkup.findings.is_empty() {
        writeln!(out, "Nothing is wrong.")?;
    }
    Ok(checkup.findings.is_empty())
}
