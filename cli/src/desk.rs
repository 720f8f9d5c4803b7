//! What a command that talks to the API works with: whom it asks, how it answers, and whether somebody
//! has said yes.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use indicatif::ProgressBar;
use punctual_connect::Address;
use serde_json::Value;

use crate::account::Accounts;
use crate::client::{Call, Client, Proof};
use crate::commands::storage::{existing, missing_file, on_runtime, open};
use crate::failure::{Code, Failure};
use crate::render::Table;
use crate::terminal::tell;

/// The server that is asked when nobody names one: where `punctual serve` listens by itself.
pub(crate) const SERVER_DEFAULT: &str = "http://127.0.0.1:8080";
/// How often the sign of life moves.
const SPIN: Duration = Duration::from_millis(120);

/// Whom to ask, and how to answer.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Reach {
    /// The server to ask; also `PUNCTUAL_SERVER`. Without it the one of `punctual login`, or
    /// `http://127.0.0.1:8080`.
    #[arg(long, value_name = "URL", global = true, conflicts_with = "storage")]
    pub(crate) server: Option<String>,
    /// Work on this storage without a server, such as `sqlite:path/to/file.db`; also `PUNCTUAL_STORAGE`.
    #[arg(long, value_name = "ADDRESS", global = true)]
    pub(crate) storage: Option<String>,
    /// A file in PEM with the certificate authority of the server, where it is not a public one; also
    /// `PUNCTUAL_CA_FILE`.
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) ca_file: Option<PathBuf>,
    /// Answer as JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Do not ask before deleting or changing many.
    #[arg(long, short = 'y', global = true)]
    pub(crate) yes: bool,
    /// Whether the command creates the file of a storage that is not there yet.
    #[arg(skip)]
    pub(crate) creates_file: bool,
}

/// Whom a command asks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Whom {
    Server(String),
    Storage(String),
}

/// A variable of the environment that says something.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

impl Reach {
    /// For a command that may be the first one on a storage: creates the file of a storage that is not there yet, and
    /// says so. The others take a missing file for a wrong address.
    pub(crate) fn creates_file(mut self, creates_file: bool) -> Self {
        self.creates_file = creates_file;
        self
    }

    /// Flags win over the environment, which wins over a login.
    pub(crate) fn whom(&self) -> Result<Whom> {
        if let Some(server) = &self.server {
            return Ok(Whom::Server(server.clone()));
        }
        if let Some(storage) = &self.storage {
            return Ok(Whom::Storage(storage.clone()));
        }
        if let Some(server) = variable("PUNCTUAL_SERVER") {
            return Ok(Whom::Server(server));
        }
        if let Some(storage) = variable("PUNCTUAL_STORAGE") {
            return Ok(Whom::Storage(storage));
        }
        let known = Accounts::load()?.current;
        Ok(Whom::Server(known.unwrap_or_else(|| SERVER_DEFAULT.to_owned())))
    }

    /// The client that asks them.
    pub(crate) async fn client(&self) -> Result<Client> {
        match self.whom()? {
            Whom::Server(server) => Client::http(&server, proof(&server)?, self.ca_file.as_deref()),
            Whom::Storage(storage) => {
                let address =
                    if self.creates_file { Address::parse(&storage)? } else { existing(&storage)? };
                let created = missing_file(&address)
                    .map(|file| format!("Created the storage {}.", file.display()));
                let opened = open(&address).await?;
                if let Some(created) = created {
                    tell(&created);
                }
                Client::direct(address.kind(), opened)
            }
        }
    }
}

/// The token of the environment, or the one of a login at this server.
fn proof(server: &str) -> Result<Proof> {
    if let Some(token) = variable("PUNCTUAL_TOKEN") {
        return Ok(Proof::Token(token.trim().to_owned()));
    }
    Ok(Accounts::load()?.token(server).map_or(Proof::None, Proof::Token))
}

/// What a command works with.
pub(crate) struct Desk {
    pub(crate) client: Client,
    json: bool,
    yes: bool,
    colours: bool,
}

/// Runs a command that talks to the API.
pub(crate) fn at_desk(reach: &Reach, work: impl AsyncFnOnce(&Desk) -> Result<()>) -> ExitCode {
    on_runtime(async {
        let client = reach.client().await?;
        let desk = Desk { client, json: reach.json, yes: reach.yes, colours: colours() };
        let worked = work(&desk).await;
        let closed = desk.client.close().await;
        worked.and(closed)
    })
}

/// Whether a person looks who wants colours.
pub(crate) fn colours() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

impl Desk {
    /// Whether a program reads the answer.
    pub(crate) fn json(&self) -> bool {
        self.json
    }

    /// Asks, with a sign of life where a person waits.
    pub(crate) async fn ask(&self, call: Call) -> Result<Value> {
        let sign = if io::stderr().is_terminal() && !self.json {
            let sign = ProgressBar::new_spinner().with_message("asking");
            sign.enable_steady_tick(SPIN);
            sign
        } else {
            ProgressBar::hidden()
        };
        let answer = self.client.ask(call).await;
        sign.finish_and_clear();
        answer
    }

    /// Asks, and prints the answer as JSON or as people read it.
    pub(crate) async fn show(
        &self,
        call: Call,
        people: impl FnOnce(&Value) -> String,
    ) -> Result<()> {
        let answer = self.ask(call).await?;
        self.print(&answer, people)
    }

    /// Prints an answer as JSON or as people read it.
    pub(crate) fn print(
        &self,
        answer: &Value,
        people: impl FnOnce(&Value) -> String,
    ) -> Result<()> {
        let text = if self.json { serde_json::to_string_pretty(answer)? } else { people(answer) };
        line(&text)
    }

    /// Asks for a list and prints it, with what to say when it is empty and how to go on when it is long.
    pub(crate) async fn list(
        &self,
        call: Call,
        things: &str,
        people: impl FnOnce(&[Value]) -> Table,
    ) -> Result<()> {
        let answer = self.ask(call).await?;
        if self.json {
            return line(&serde_json::to_string_pretty(&answer)?);
        }
        let items = answer["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        if items.is_empty() {
            tell(&format!("No {things}."));
        } else {
            self.table(&people(items))?;
        }
        if let Some(next) = answer["next"].as_str() {
            tell(&format!("There are more: add --after {next}, or a larger --limit."));
        }
        Ok(())
    }

    /// Prints a table.
    pub(crate) fn table(&self, table: &Table) -> Result<()> {
        line(&table.text(self.colours))
    }

    /// A table within something larger.
    pub(crate) fn table_text(&self, table: &Table) -> String {
        table.text(self.colours)
    }

    /// Asks before something that cannot be taken back, naming what it is.
    pub(crate) fn confirm(&self, what: &str) -> Result<()> {
        confirm(what, self.yes)
    }
}

/// Asks whether something is meant, unless that was said already.
pub(crate) fn confirm(what: &str, yes: bool) -> Result<()> {
    if yes {
        return Ok(());
    }
    let refused = |why: &str| Failure::new(Code::Refused, format!("{what}: {why}"));
    if !io::stdin().is_terminal() {
        return Err(refused("nobody is there to say yes")
            .hint("add --yes when you mean it; nothing was changed")
            .into());
    }
    write!(io::stderr(), "{what}? [y/N] ")?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    if matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
        return Ok(());
    }
    Err(refused("not confirmed; nothing was changed").into())
}

/// One line, or several, on standard output.
pub(crate) fn line(text: &str) -> Result<()> {
    Ok(writeln!(io::stdout(), "{text}")?)
}
