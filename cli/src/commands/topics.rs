//! `punctual topics`: lists the topics of a transport.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;

use super::storage::on_runtime;
use super::transport::TransportArgs;

/// Arguments of `punctual topics`.
#[derive(Debug, Args)]
pub(crate) struct TopicsArgs {
    #[command(flatten)]
    transport: TransportArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &TopicsArgs) -> ExitCode {
    on_runtime(async {
        let opened = arguments.transport.open_existing().await?;
        let topics = opened.topics().await?;
        opened.close().await?;
        let mut out = io::stdout().lock();
        if arguments.json {
            writeln!(out, "{}", serde_json::to_string(&topics)?)?;
        } else {
            for topic in topics {
                writeln!(out, "{topic}")?;
            }
        }
        Ok(())
    })
}
