//! `punctual audit`: who changed what.

use std::process::ExitCode;

use clap::Args;

use super::paging::Paging;
use crate::client::Call;
use crate::desk::{Reach, at_desk};
use crate::render::{Table, short, stamp, word};

/// Which entries.
#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    #[command(flatten)]
    reach: Reach,
    /// Only by this one: the name, or the identity that `--json` shows.
    #[arg(long)]
    who: Option<String>,
    /// Only what begins with this, such as job or job.pause.
    #[arg(long)]
    what: Option<String>,
    /// Only to this.
    #[arg(long)]
    target: Option<String>,
    #[command(flatten)]
    paging: Paging,
}

/// Lists them.
pub(crate) fn run(arguments: &AuditArgs) -> ExitCode {
    at_desk(&arguments.reach, async |desk| {
        let call = Call::get(&["audit"])
            .with("who", arguments.who.as_ref())
            .with("what", arguments.what.as_ref())
            .with("target", arguments.target.as_ref());
        desk.list(arguments.paging.on(call), "entries", |items| {
            let mut table = Table::new(&["at", "who", "what", "target", "reason", "from"]);
            for entry in items {
                table.row([
                    stamp(&entry["at"]),
                    word(&entry["who"]),
                    word(&entry["what"]),
                    short(&entry["target"], 48),
                    short(&entry["reason"], 60),
                    word(&entry["from"]),
                ]);
            }
            table
        })
        .await
    })
}
