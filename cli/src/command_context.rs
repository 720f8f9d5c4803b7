//! Context of a command that calls the API: its target, its output format and its confirmations.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use indicatif::ProgressBar;
use punctual_backends::Address;
use serde_json::Value;

use crate::account::Accounts;
use crate::client::{Call, Client, Credentials};
use crate::commands::storage::{existing, missing_file, on_runtime, open};
use crate::error::{Code, CommandError};
use crate::render::Table;
use crate::terminal::notice;

/// Default server: the default address of `punctual serve`.
pub(crate) const SERVER_DEFAULT: &str = "http://127.0.0.1:8080";
/// Interval between two frames of the spinner.
const SPINNER_INTERVAL: Duration = Duration::from_millis(120);

/// Target of a command, and its output format.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ConnectionArgs {
    /// Address of the server; also `PUNCTUAL_SERVER`. Default: the server of `punctual login`, else
    /// `http://127.0.0.1:8080`.
    #[arg(long, value_name = "URL", global = true, conflicts_with = "storage")]
    pub(crate) server: Option<String>,
    /// Use this storage without a server, such as `sqlite:path/to/file.db`; also `PUNCTUAL_STORAGE`.
    #[arg(long, value_name = "ADDRESS", global = true)]
    pub(crate) storage: Option<String>,
    /// PEM file with the private certificate authority of the server; also `PUNCTUAL_CA_FILE`.
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) ca_file: Option<PathBuf>,
    /// Print JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Delete and change without asking for confirmation.
    #[arg(long, short = 'y', global = true)]
    pub(crate) yes: bool,
    /// Whether the command creates a missing storage file.
    #[arg(skip)]
    pub(crate) creates_file: bool,
}

/// Target of a command: a running server, or a storage.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Server(String),
    Storage(String),
}

/// Returns an environment variable that is set and not blank.
pub(crate) fn env_var(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

impl ConnectionArgs {
    /// Allows a command that may be the first one on a storage to create its file. Other commands reject a missing file as
    /// a wrong address.
    pub(crate) fn creates_file(mut self, creates_file: bool) -> Self {
        self.creates_file = creates_file;
        self
    }

    /// Returns the target. Flags override the environment, which overrides a login.
    pub(crate) fn target(&self) -> Result<Target> {
        if let Some(server) = &self.server {
            return Ok(Target::Server(server.clone()));
        }
        if let Some(storage) = &self.storage {
            return Ok(Target::Storage(storage.clone()));
        }
        if let Some(server) = env_var("PUNCTUAL_SERVER") {
            return Ok(Target::Server(server));
        }
        if let Some(storage) = env_var("PUNCTUAL_STORAGE") {
            return Ok(Target::Storage(storage));
        }
        let current = Accounts::load()?.current;
        Ok(Target::Server(current.unwrap_or_else(|| SERVER_DEFAULT.to_owned())))
    }

    /// Opens the client of the target.
    pub(crate) async fn client(&self) -> Result<Client> {
        match self.target()? {
            Target::Server(server) => {
                Client::http(&server, credentials(&server)?, self.ca_file.as_deref())
            }
            Target::Storage(storage) => {
                let address =
                    if self.creates_file { Address::parse(&storage)? } else { existing(&storage)? };
                let created = missing_file(&address)
                    .map(|file| format!("Created the storage {}.", file.display()));
                let opened = open(&address).await?;
                if let Some(created) = created {
                    notice(&created);
                }
                Client::direct(address.kind(), opened)
            }
        }
    }
}

/// Returns the token of the environment, else the one of a login at this server.
fn credentials(server: &str) -> Result<Credentials> {
    if let Some(token) = env_var("PUNCTUAL_TOKEN") {
        return Ok(Credentials::Token(token.trim().to_owned()));
    }
    Ok(Accounts::load()?.token(server).map_or(Credentials::None, Credentials::Token))
}

/// Context of a running command.
pub(crate) struct CommandContext {
    pub(crate) client: Client,
    json: bool,
    yes: bool,
    colours: bool,
}

/// Runs a command that calls the API and returns its exit code.
pub(crate) fn run_command(
    connection: &ConnectionArgs,
    work: impl AsyncFnOnce(&CommandContext) -> Result<()>,
) -> ExitCode {
    on_runtime(async {
        let client = connection.client().await?;
        let colours = use_colours();
        let context =
            CommandContext { client, json: connection.json, yes: connection.yes, colours };
        let result = work(&context).await;
        let closed = context.client.close().await;
        result.and(closed)
    })
}

/// Returns whether standard output is a terminal and `NO_COLOR` is not set.
pub(crate) fn use_colours() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

impl CommandContext {
    /// Returns whether JSON is printed.
    pub(crate) fn json(&self) -> bool {
        self.json
    }

    /// Sends a call, with a spinner on a terminal.
    pub(crate) async fn send(&self, call: Call) -> Result<Value> {
        let spinner = if io::stderr().is_terminal() && !self.json {
            let spinner = ProgressBar::new_spinner().with_message("waiting");
            spinner.enable_steady_tick(SPINNER_INTERVAL);
            spinner
        } else {
            ProgressBar::hidden()
        };
        let response = self.client.send(call).await;
        spinner.finish_and_clear();
        response
    }

    /// Sends a call and prints the response as JSON or as text.
    pub(crate) async fn show(&self, call: Call, text: impl FnOnce(&Value) -> String) -> Result<()> {
        let response = self.send(call).await?;
        self.print(&response, text)
    }

    /// Prints a response as JSON or as text.
    pub(crate) fn print(
        &self,
        response: &Value,
        text: impl FnOnce(&Value) -> String,
    ) -> Result<()> {
        let printed =
            if self.json { serde_json::to_string_pretty(response)? } else { text(response) };
        print_line(&printed)
    }

    /// Requests a list and prints it, with a note when it is empty or has a next page.
    pub(crate) async fn list(
        &self,
        call: Call,
        things: &str,
        rows: impl FnOnce(&[Value]) -> Table,
    ) -> Result<()> {
        let page = self.send(call).await?;
        if self.json {
            return print_line(&serde_json::to_string_pretty(&page)?);
        }
        let items = page["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        if items.is_empty() {
            notice(&format!("No {things}."));
        } else {
            self.table(&rows(items))?;
        }
        if let Some(next) = page["next"].as_str() {
            notice(&format!("More results: add --after {next}, or a larger --limit."));
        }
        Ok(())
    }

    /// Prints a table.
    pub(crate) fn table(&self, table: &Table) -> Result<()> {
        print_line(&table.text(self.colours))
    }

    /// Returns a table as a part of a longer text.
    pub(crate) fn table_text(&self, table: &Table) -> String {
        table.text(self.colours)
    }

    /// Asks for confirmation of an action that cannot be undone. Fails when it is not given.
    pub(crate) fn confirm(&self, action: &str) -> Result<()> {
        confirm(action, self.yes)
    }
}

/// Asks for confirmation of an action, unless `--yes` was given.
pub(crate) fn confirm(action: &str, yes: bool) -> Result<()> {
    if yes {
        return Ok(());
    }
    let refused = |why: &str| CommandError::new(Code::Refused, format!("{action}: {why}"));
    if !io::stdin().is_terminal() {
        return Err(refused("not confirmed, because standard input is not a terminal")
            .hint("add --yes to confirm; nothing was changed")
            .into());
    }
    write!(io::stderr(), "{action}? [y/N] ")?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    if matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
        return Ok(());
    }
    Err(refused("not confirmed; nothing was changed").into())
}

/// Prints a text and a line feed to standard output.
pub(crate) fn print_line(text: &str) -> Result<()> {
    Ok(writeln!(io::stdout(), "{text}")?)
}
