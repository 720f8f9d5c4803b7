//! `punctual audit`: the audit log.

use std::process::ExitCode;

use clap::Args;

use super::paging::Paging;
use crate::client::Call;
use crate::command_context::{ConnectionArgs, run_command};
use crate::render::{Table, short, stamp, word};

/// Filter of the audit log.
#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    #[command(flatten)]
    connection: ConnectionArgs,
    /// Only by this user or token: the name, or the identity that `--json` prints.
    #[arg(long)]
    who: Option<String>,
    /// Only actions that begin with this, such as job or job.pause.
    #[arg(long)]
    what: Option<String>,
    /// Only on this target, such as the name of a job.
    #[arg(long)]
    target: Option<String>,
    #[command(flatten)]
    paging: Paging,
}

/// Lists the entries.
pub(crate) fn run(arguments: &AuditArgs) -> ExitCode {
    run_command(&arguments.connection, async |context| {
        let call = Call::get(&["audit"])
            .with("who", arguments.who.as_ref())
            .with("what", arguments.what.as_ref())
            .with("target", arguments.target.as_ref());
        context
            .list(arguments.paging.apply(call), "entries", |items| {
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
