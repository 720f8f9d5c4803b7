//! `punctual users`: lists, creates, changes and deletes users.

use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use super::paging::Paging;
use crate::client::Call;
use crate::command_context::{ConnectionArgs, run_command};
use crate::render::{Table, moment, stamp, word};
use crate::secret;

/// Arguments of `punctual users`.
#[derive(Debug, Args)]
pub(crate) struct UsersArgs {
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(subcommand)]
    command: UsersCommand,
}

/// Commands about users.
#[derive(Debug, Subcommand)]
enum UsersCommand {
    /// List users.
    List(Paging),
    /// Create a user; the password is read from the terminal, or from the first line of standard input.
    Add(UserRole),
    /// Change the role of a user and end the user's sessions.
    SetRole(UserRole),
    /// Change the password of a user and end the user's sessions.
    Password(UserName),
    /// Disable a user, end the user's sessions and revoke the tokens.
    Disable(UserName),
    /// Enable a disabled user; the tokens stay revoked.
    Enable(UserName),
    /// Delete a user.
    Delete(UserName),
}

/// Name of a user.
#[derive(Debug, Args)]
struct UserName {
    /// Name of the user.
    name: String,
}

/// Name and role of a user.
#[derive(Debug, Args)]
struct UserRole {
    /// Name of the user.
    name: String,
    /// Role of the user.
    #[arg(value_enum)]
    role: Role,
}

/// Role of a user.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Role {
    /// May read everything and change nothing.
    Viewer,
    /// May also pause, trigger and redrive.
    Operator,
    /// May also change jobs, users and settings.
    Admin,
}

impl Role {
    fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &UsersArgs) -> ExitCode {
    // The first user may be created before the first start of the server.
    let is_first = matches!(arguments.command, UsersCommand::Add(_));
    run_command(&arguments.connection.clone().creates_file(is_first), async |context| {
        let change = async |name: &str, change: Value, text: String| {
            context.show(Call::patch(&["users", name], change), |_| text).await
        };
        match &arguments.command {
            UsersCommand::List(paging) => {
                let call = paging.apply(Call::get(&["users"]));
                context
                    .list(call, "users", |items| rows(items, |at| moment(at, context.client.now())))
                    .await
            }
            UsersCommand::Add(UserRole { name, role }) => {
                let password = secret::prompt_new_password()?;
                let body = json!({ "name": name, "role": role.as_str(), "password": password });
                context
                    .show(Call::post(&["users"], body), |user| {
                        format!(
                            "Created {} with the role {}.",
                            word(&user["name"]),
                            word(&user["role"])
                        )
                    })
                    .await
            }
            UsersCommand::SetRole(UserRole { name, role }) => {
                let role = role.as_str();
                change(name, json!({ "role": role }), format!("{name} has the role {role}.")).await
            }
            UsersCommand::Password(UserName { name }) => {
                let password = secret::prompt_new_password()?;
                let text =
                    format!("The password of {name} is changed, and the sessions have ended.");
                change(name, json!({ "password": password }), text).await
            }
            UsersCommand::Disable(UserName { name }) => {
                let text = format!(
                    "{name} is disabled; the sessions have ended and the tokens are revoked."
                );
                change(name, json!({ "disabled": true }), text).await
            }
            UsersCommand::Enable(UserName { name }) => {
                let text = format!("{name} is enabled and needs new tokens.");
                change(name, json!({ "disabled": false }), text).await
            }
            UsersCommand::Delete(UserName { name }) => {
                context.send(Call::get(&["users", name])).await?;
                context.confirm(&format!("Delete 1 user, {name}"))?;
                context.send(Call::delete(&["users", name])).await?;
                context.print(&json!({ "deleted": name }), |_| format!("Deleted {name}."))
            }
        }
    })
}

/// Returns the table of users.
fn rows(items: &[Value], when: impl Fn(&Value) -> String) -> Table {
    let mut table = Table::new(&["name", "role", "status", "last login", "created"]);
    for user in items {
        let disabled = user["disabled"].as_bool() == Some(true);
        let login = &user["last_login_at"];
        table.row([
            word(&user["name"]),
            word(&user["role"]),
            if disabled { "disabled" } else { "active" }.to_owned(),
            if login.is_null() { "never".to_owned() } else { when(login) },
            stamp(&user["created_at"]),
        ]);
    }
    table
}
