//! `punctual login` and `logout`: create and revoke the stored token of this machine.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use axum::http::header::SET_COOKIE;
use clap::Args;
use serde_json::{Value, json};

use super::storage::on_runtime;
use crate::account::{Account, Accounts, normalized};
use crate::api_error::api_error;
use crate::client::{ApiResponse, Call, Client, Credentials};
use crate::command_context::{SERVER_DEFAULT, env_var};
use crate::error::{Code, CommandError};
use crate::render::word;
use crate::secret;
use crate::terminal::notice;

/// Lifetime of a token of a login.
const TOKEN_TTL: &str = "90d";

/// Arguments of `punctual login`.
#[derive(Debug, Args)]
pub(crate) struct LoginArgs {
    /// Address of the server; default: `http://127.0.0.1:8080`.
    #[arg(value_name = "URL")]
    server: Option<String>,
    /// User name; the password is read from the terminal, or from the first line of standard input.
    #[arg(long, short, required_unless_present = "with_token")]
    user: Option<String>,
    /// Store an existing token, read from the terminal, or from the first line of standard input.
    #[arg(long, conflicts_with = "user")]
    with_token: bool,
    /// PEM file with the private certificate authority of the server; also `PUNCTUAL_CA_FILE`.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

/// Arguments of `punctual logout`.
#[derive(Debug, Args)]
pub(crate) struct LogoutArgs {
    /// Address of the server; default: the server of the last login.
    #[arg(value_name = "URL")]
    server: Option<String>,
    /// PEM file with the private certificate authority of the server; also `PUNCTUAL_CA_FILE`.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

/// Logs in.
pub(crate) fn run(arguments: &LoginArgs) -> ExitCode {
    on_runtime(async {
        let server = arguments.server.clone().or_else(|| env_var("PUNCTUAL_SERVER"));
        let server = normalized(&server.unwrap_or_else(|| SERVER_DEFAULT.to_owned()));
        let ca_file = arguments.ca_file.as_deref();
        let account = match &arguments.user {
            Some(user) => by_password(&server, user, ca_file).await?,
            None => Account { token: secret::prompt("token")?.trim().to_owned(), id: None },
        };
        let client = Client::http(&server, Credentials::Token(account.token.clone()), ca_file)?;
        let session = client.send(Call::get(&["session"])).await?;
        if session["authenticated"].as_bool() != Some(true) {
            return Err(CommandError::new(
                Code::Forbidden,
                format!("{server} does not accept this token"),
            )
            .hint("create one with `punctual tokens create`, or log in with --user")
            .into());
        }
        let mut accounts = Accounts::load()?;
        accounts.servers.insert(server.clone(), account);
        accounts.current = Some(server.clone());
        let path = accounts.save()?;
        let (name, role) = (word(&session["user"]["name"]), word(&session["user"]["role"]));
        notice(&format!(
            "Logged in to {server} as {name} ({role}); the token is stored in {}.",
            path.display()
        ));
        Ok(())
    })
}

/// Creates a token in a session, which is then closed.
async fn by_password(server: &str, user: &str, ca_file: Option<&Path>) -> Result<Account> {
    let anonymous = Client::http(server, Credentials::None, ca_file)?;
    let session = anonymous.send(Call::get(&["session"])).await?;
    if session["auth"] != "password" {
        let mode = word(&session["auth"]);
        let text = format!("{server} has no password login: its auth mode is {mode}");
        return Err(CommandError::new(Code::Refused, text)
            .hint("use it without a login, or store a token with --with-token")
            .into());
    }
    let password = secret::prompt("password")?;
    let login = Call::post(&["session"], json!({ "name": user, "password": password }));
    let response = anonymous.send_raw(login).await?;
    if !response.status.is_success() {
        return Err(api_error(&response, server).into());
    }
    let session: Value = serde_json::from_slice(&response.body)?;
    let csrf = session["csrf"].as_str().unwrap_or_default().to_owned();
    let credentials = Credentials::Session { cookie: cookie(&response), csrf };
    let client = Client::http(server, credentials, ca_file)?;
    let scope = match session["user"]["role"].as_str() {
        Some("admin") => "admin",
        Some("operator") => "operate",
        _ => "read",
    };
    let token = json!({ "name": "command line", "scopes": [scope], "expires_in": TOKEN_TTL });
    let created = client.send(Call::post(&["tokens"], token)).await;
    let closed = client.send(Call::delete(&["session"])).await;
    let created = created?;
    closed?;
    let token = created["secret"].as_str().unwrap_or_default().to_owned();
    Ok(Account { token, id: created["id"].as_str().map(ToOwned::to_owned) })
}

/// Returns the cookies that a response sets, as a request sends them.
fn cookie(response: &ApiResponse) -> String {
    let all = response.headers.get_all(SET_COOKIE).iter();
    let pairs =
        all.filter_map(|cookie| cookie.to_str().ok()?.split(';').next().map(ToOwned::to_owned));
    pairs.collect::<Vec<_>>().join("; ")
}

/// Logs out: deletes the stored token, and revokes it when its id is known.
pub(crate) fn run_logout(arguments: &LogoutArgs) -> ExitCode {
    on_runtime(async {
        let mut accounts = Accounts::load()?;
        let server =
            arguments.server.as_deref().map(normalized).or_else(|| accounts.current.clone());
        let account = server.as_ref().and_then(|server| accounts.servers.remove(server));
        let (Some(server), Some(account)) = (server, account) else {
            return Err(
                CommandError::new(Code::NotFound, "there is no login at this server").into()
            );
        };
        if accounts.current.as_ref() == Some(&server) {
            accounts.current = None;
        }
        accounts.save()?;
        let client =
            Client::http(&server, Credentials::Token(account.token), arguments.ca_file.as_deref())?;
        let revoked = match &account.id {
            Some(id) => client.send(Call::delete(&["tokens", id])).await.is_ok(),
            None => false,
        };
        let rest = if revoked {
            "its token is revoked"
        } else {
            "its token is deleted here but still valid; revoke it with `punctual tokens revoke`"
        };
        notice(&format!("Logged out of {server}; {rest}."));
        Ok(())
    })
}
