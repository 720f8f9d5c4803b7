//! `punctual tokens`: secrets by which programs are known.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::json;

use super::paging::Paging;
use crate::client::Call;
use crate::desk::{Desk, Reach, at_desk};
use crate::render::{Table, away, stamp, word};
use crate::terminal::tell;

/// Tokens: how programs are known.
#[derive(Debug, Args)]
pub(crate) struct TokensArgs {
    #[command(flatten)]
    reach: Reach,
    #[command(subcommand)]
    command: TokensCommand,
}

/// What to do with tokens.
#[derive(Debug, Subcommand)]
enum TokensCommand {
    /// Every token, without its secret.
    List(Paging),
    /// Create a token. Its secret is printed once and never again.
    Create(Create),
    /// End a token at once.
    Revoke(Revoke),
}

/// A token to be.
#[derive(Debug, Args)]
struct Create {
    /// What it is for.
    name: String,
    /// What it allows, with commas between them: read, operate, admin, work, publish.
    #[arg(long = "scope", value_name = "SCOPES", value_delimiter = ',', required = true)]
    scopes: Vec<String>,
    /// The queues that a token with the scope work may claim from, with commas between them; '*' is every queue.
    #[arg(long = "queue", value_name = "QUEUES", value_delimiter = ',')]
    queues: Vec<String>,
    /// How long it lasts, such as 90d, or never for one without an end; a year when not given.
    #[arg(long, value_name = "LENGTH")]
    expires_in: Option<String>,
}

/// A token.
#[derive(Debug, Args)]
struct Revoke {
    /// The id of the token, as `tokens list` shows it.
    id: String,
}

/// Runs one of them.
pub(crate) fn run(arguments: &TokensArgs) -> ExitCode {
    // The first token, as the first user, may be created before the server has ever started.
    let is_first = matches!(arguments.command, TokensCommand::Create(_));
    at_desk(&arguments.reach.clone().creates_file(is_first), async |desk| {
        match &arguments.command {
            TokensCommand::List(paging) => list(desk, paging).await,
            TokensCommand::Create(wanted) => create(desk, wanted).await,
            TokensCommand::Revoke(Revoke { id }) => {
                desk.confirm(&format!("Revoke 1 token, {id}; whoever uses it is locked out"))?;
                desk.ask(Call::delete(&["tokens", id])).await?;
                desk.print(&json!({ "revoked": id }), |_| format!("Revoked {id}."))
            }
        }
    })
}

async fn list(desk: &Desk, paging: &Paging) -> Result<()> {
    desk.list(paging.on(Call::get(&["tokens"])), "tokens", |items| {
        let now = desk.client.now();
        let mut table =
            Table::new(&["id", "name", "scopes", "queues", "user", "last used", "expires"]);
        for token in items {
            let (used, ends) = (&token["last_used_at"], &token["expires_at"]);
            let never = "never".to_owned();
            table.row([
                word(&token["id"]),
                word(&token["name"]),
                word(&token["scopes"]),
                word(&token["queues"]),
                word(&token["user"]),
                if used.is_null() { never.clone() } else { away(used, now) },
                if ends.is_null() { never } else { away(ends, now) },
            ]);
        }
        table
    })
    .await
}

async fn create(desk: &Desk, create: &Create) -> Result<()> {
    let mut body = json!({ "name": create.name, "scopes": create.scopes });
    if !create.queues.is_empty() {
        body["queues"] = json!(create.queues);
    }
    if let Some(length) = &create.expires_in {
        body["expires_in"] = length.as_str().into();
    }
    let token = desk.ask(Call::post(&["tokens"], body)).await?;
    desk.print(&token, |token| word(&token["secret"]))?;
    if !desk.json() {
        let ends = match &token["expires_at"] {
            serde_json::Value::Null => "for ever".to_owned(),
            at => format!("until {}", stamp(at)),
        };
        let id = word(&token["id"]);
        tell(&format!("This is the token {id}; it lasts {ends} and is not shown again."));
    }
    Ok(())
}
