//! `punctual users`: who may log in, and what they may do.

use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use super::paging::Paging;
use crate::client::Call;
use crate::desk::{Reach, at_desk};
use crate::render::{Table, moment, stamp, word};
use crate::secret;

/// Users: who may log in.
#[derive(Debug, Args)]
pub(crate) struct UsersArgs {
    #[command(flatten)]
    reach: Reach,
    #[command(subcommand)]
    command: UsersCommand,
}

/// What to do with users.
#[derive(Debug, Subcommand)]
enum UsersCommand {
    /// Every user.
    List(Paging),
    /// Create a user. The password is asked for, or the first line of standard input.
    Add(Ranked),
    /// Give a user another role; their sessions end.
    SetRole(Ranked),
    /// Give a user another password, which is asked for; their sessions end.
    Password(Named),
    /// Keep a user from logging in; their sessions and tokens end for good.
    Disable(Named),
    /// Let a disabled user log in again; the tokens they had stay ended.
    Enable(Named),
    /// Delete a user.
    Delete(Named),
}

/// A user.
#[derive(Debug, Args)]
struct Named {
    /// The user.
    name: String,
}

/// A user and a role.
#[derive(Debug, Args)]
struct Ranked {
    /// The user.
    name: String,
    /// What they may do.
    #[arg(value_enum)]
    role: Role,
}

/// What somebody may do.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Role {
    /// Sees everything and changes nothing.
    Viewer,
    /// Acts on work: pauses, triggers, sends again.
    Operator,
    /// Changes what there is: jobs, users, settings.
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

/// Runs one of them.
pub(crate) fn run(arguments: &UsersArgs) -> ExitCode {
    // The first user is created before the server has ever started.
    let is_first = matches!(arguments.command, UsersCommand::Add(_));
    at_desk(&arguments.reach.clone().creates_file(is_first), async |desk| {
        let change = async |name: &str, change: Value, said: String| {
            desk.show(Call::patch(&["users", name], change), |_| said).await
        };
        match &arguments.command {
            UsersCommand::List(paging) => {
                let call = paging.on(Call::get(&["users"]));
                desk.list(call, "users", |items| rows(items, |at| moment(at, desk.client.now())))
                    .await
            }
            UsersCommand::Add(Ranked { name, role }) => {
                let password = secret::ask_new()?;
                let body = json!({ "name": name, "role": role.as_str(), "password": password });
                desk.show(Call::post(&["users"], body), |user| {
                    format!("{} may log in as {}.", word(&user["name"]), word(&user["role"]))
                })
                .await
            }
            UsersCommand::SetRole(Ranked { name, role }) => {
                let role = role.as_str();
                change(name, json!({ "role": role }), format!("{name} is {role}.")).await
            }
            UsersCommand::Password(Named { name }) => {
                let password = secret::ask_new()?;
                let said = format!("{name} has a new password, and has to log in again.");
                change(name, json!({ "password": password }), said).await
            }
            UsersCommand::Disable(Named { name }) => {
                let said = format!("{name} may not log in; their sessions and tokens have ended.");
                change(name, json!({ "disabled": true }), said).await
            }
            UsersCommand::Enable(Named { name }) => {
                let said = format!("{name} may log in again, and needs new tokens.");
                change(name, json!({ "disabled": false }), said).await
            }
            UsersCommand::Delete(Named { name }) => {
                desk.ask(Call::get(&["users", name])).await?;
                desk.confirm(&format!("Delete 1 user, {name}"))?;
                desk.ask(Call::delete(&["users", name])).await?;
                desk.print(&json!({ "deleted": name }), |_| format!("Deleted {name}."))
            }
        }
    })
}

/// Users, one on a line.
fn rows(items: &[Value], when: impl Fn(&Value) -> String) -> Table {
    let mut table = Table::new(&["name", "role", "status", "last login", "since"]);
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
