//! `punctual tokens`: lists, creates and revokes API tokens.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::json;

use super::paging::Paging;
use crate::client::Call;
use crate::command_context::{CommandContext, ConnectionArgs, run_command};
use crate::render::{Table, relative, stamp, word};
use crate::terminal::notice;

/// Arguments of `punctual tokens`.
#[derive(Debug, Args)]
pub(crate) struct TokensArgs {
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(subcommand)]
    command: TokensCommand,
}

/// Commands about tokens.
#[derive(Debug, Subcommand)]
enum TokensCommand {
    /// List tokens without their secrets.
    List(Paging),
    /// Create a token and print its secret, which is shown only once.
    Create(Create),
    /// Revoke a token.
    Revoke(Revoke),
}

/// Arguments of `tokens create`.
#[derive(Debug, Args)]
struct Create {
    /// Name of the token.
    name: String,
    /// Scopes of the token, separated by commas: read, operate, admin, work, publish.
    #[arg(long = "scope", value_name = "SCOPES", value_delimiter = ',', required = true)]
    scopes: Vec<String>,
    /// Queues that a token with the scope work may claim from, separated by commas; '*' means every queue.
    #[arg(long = "queue", value_name = "QUEUES", value_delimiter = ',')]
    queues: Vec<String>,
    /// Lifetime of the token, such as 90d, or never; default: a year.
    #[arg(long, value_name = "DURATION")]
    expires_in: Option<String>,
}

/// Arguments of `tokens revoke`.
#[derive(Debug, Args)]
struct Revoke {
    /// Id of the token, as `tokens list` prints it.
    id: String,
}

/// Runs the command.
pub(crate) fn run(arguments: &TokensArgs) -> ExitCode {
    // The first token, like the first user, may be created before the first start of the server.
    let is_first = matches!(arguments.command, TokensCommand::Create(_));
    run_command(&arguments.connection.clone().creates_file(is_first), async |context| {
        match &arguments.command {
            TokensCommand::List(paging) => list(context, paging).await,
            TokensCommand::Create(args) => create(context, args).await,
            TokensCommand::Revoke(Revoke { id }) => {
                context
                    .confirm(&format!("Revoke 1 token, {id}; programs that use it lose access"))?;
                context.send(Call::delete(&["tokens", id])).await?;
                context.print(&json!({ "revoked": id }), |_| format!("Revoked {id}."))
            }
        }
    })
}

async fn list(context: &CommandContext, paging: &Paging) -> Result<()> {
    context
        .list(paging.apply(Call::get(&["tokens"])), "tokens", |items| {
            let now = context.client.now();
            let mut table =
                Table::new(&["id", "name", "scopes", "queues", "user", "last used", "expires"]);
            for token in items {
                let (used, expires) = (&token["last_used_at"], &token["expires_at"]);
                let never = "never".to_owned();
                table.row([
                    word(&token["id"]),
                    word(&token["name"]),
                    word(&token["scopes"]),
                    word(&token["queues"]),
                    word(&token["user"]),
                    if used.is_null() { never.clone() } else { relative(used, now) },
                    if expires.is_null() { never } else { relative(expires, now) },
                ]);
            }
            table
        })
        .await
}

async fn create(context: &CommandContext, create: &Create) -> Result<()> {
    let mut body = json!({ "name": create.name, "scopes": create.scopes });
    if !create.queues.is_empty() {
        body["queues"] = json!(create.queues);
    }
    if let Some(ttl) = &create.expires_in {
        body["expires_in"] = ttl.as_str().into();
    }
    let token = context.send(Call::post(&["tokens"], body)).await?;
    context.print(&token, |token| word(&token["secret"]))?;
    if !context.json() {
        let expiry = match &token["expires_at"] {
            serde_json::Value::Null => "never expires".to_owned(),
            at => format!("expires at {}", stamp(at)),
        };
        let id = word(&token["id"]);
        notice(&format!(
            "This is the secret of the token {id}; it {expiry} and is not shown again."
        ));
    }
    Ok(())
}
