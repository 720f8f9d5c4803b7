//! `punctual login` and `logout`: a token for this machine, kept where only its owner can read it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use axum::http::header::SET_COOKIE;
use clap::Args;
use serde_json::{Value, json};

use super::storage::on_runtime;
use crate::account::{Account, Accounts, spelled};
use crate::client::{Answer, Call, Client, Proof};
use crate::desk::{SERVER_DEFAULT, variable};
use crate::failure::{Code, Failure};
use crate::refusal::refusal;
use crate::render::word;
use crate::secret;
use crate::terminal::tell;

/// How long a login lasts.
const LENGTH: &str = "90d";

/// Where, and as whom.
#[derive(Debug, Args)]
pub(crate) struct LoginArgs {
    /// The server; `http://127.0.0.1:8080` when not given.
    #[arg(value_name = "URL")]
    server: Option<String>,
    /// Who you are; the password is asked for, or the first line of standard input.
    #[arg(long, short, required_unless_present = "with_token")]
    user: Option<String>,
    /// Use a token that you have: it is asked for, or the first line of standard input.
    #[arg(long, conflicts_with = "user")]
    with_token: bool,
    /// A file in PEM with the certificate authority of the server; also `PUNCTUAL_CA_FILE`.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

/// Where.
#[derive(Debug, Args)]
pub(crate) struct LogoutArgs {
    /// The server; the one of the last login when not given.
    #[arg(value_name = "URL")]
    server: Option<String>,
    /// A file in PEM with the certificate authority of the server; also `PUNCTUAL_CA_FILE`.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

/// Logs in.
pub(crate) fn run(arguments: &LoginArgs) -> ExitCode {
    on_runtime(async {
        let named = arguments.server.clone().or_else(|| variable("PUNCTUAL_SERVER"));
        let server = spelled(&named.unwrap_or_else(|| SERVER_DEFAULT.to_owned()));
        let ca_file = arguments.ca_file.as_deref();
        let account = match &arguments.user {
            Some(user) => by_password(&server, user, ca_file).await?,
            None => Account { token: secret::ask("token")?.trim().to_owned(), id: None },
        };
        let client = Client::http(&server, Proof::Token(account.token.clone()), ca_file)?;
        let session = client.ask(Call::get(&["session"])).await?;
        if session["authenticated"].as_bool() != Some(true) {
            return Err(Failure::new(
                Code::Forbidden,
                format!("{server} does not know this token"),
            )
            .hint("create one with `punctual tokens create`, or log in with --user")
            .into());
        }
        let mut accounts = Accounts::load()?;
        accounts.servers.insert(server.clone(), account);
        accounts.current = Some(server.clone());
        let path = accounts.save()?;
        let (name, role) = (word(&session["user"]["name"]), word(&session["user"]["role"]));
        tell(&format!(
            "Logged in at {server} as {name} ({role}); remembered in {}.",
            path.display()
        ));
        Ok(())
    })
}

/// A token made by a session, which ends at once.
async fn by_password(server: &str, user: &str, ca_file: Option<&Path>) -> Result<Account> {
    let stranger = Client::http(server, Proof::None, ca_file)?;
    let greeting = stranger.ask(Call::get(&["session"])).await?;
    if greeting["auth"] != "password" {
        let text =
            format!("nobody logs in at {server}: its auth mode is {}", word(&greeting["auth"]));
        return Err(Failure::new(Code::Refused, text)
            .hint("just use it, or give a token with --with-token")
            .into());
    }
    let password = secret::ask("password")?;
    let login = Call::post(&["session"], json!({ "name": user, "password": password }));
    let answer = stranger.answer(login).await?;
    if !answer.status.is_success() {
        return Err(refusal(&answer, server).into());
    }
    let session: Value = serde_json::from_slice(&answer.body)?;
    let csrf = session["csrf"].as_str().unwrap_or_default().to_owned();
    let client = Client::http(server, Proof::Session { cookie: cookie(&answer), csrf }, ca_file)?;
    let scope = match session["user"]["role"].as_str() {
        Some("admin") => "admin",
        Some("operator") => "operate",
        _ => "read",
    };
    let wanted = json!({ "name": "command line", "scopes": [scope], "expires_in": LENGTH });
    let made = client.ask(Call::post(&["tokens"], wanted)).await;
    let ended = client.ask(Call::delete(&["session"])).await;
    let made = made?;
    ended?;
    let token = made["secret"].as_str().unwrap_or_default().to_owned();
    Ok(Account { token, id: made["id"].as_str().map(ToOwned::to_owned) })
}

/// The cookie of a session, as it is sent back.
fn cookie(answer: &Answer) -> String {
    let all = answer.headers.get_all(SET_COOKIE).iter();
    let pairs =
        all.filter_map(|cookie| cookie.to_str().ok()?.split(';').next().map(ToOwned::to_owned));
    pairs.collect::<Vec<_>>().join("; ")
}

/// Logs out: the token is revoked where that is possible, and forgotten.
pub(crate) fn run_logout(arguments: &LogoutArgs) -> ExitCode {
    on_runtime(async {
        let mut accounts = Accounts::load()?;
        let server = arguments.server.as_deref().map(spelled).or_else(|| accounts.current.clone());
        let account = server.as_ref().and_then(|server| accounts.servers.remove(server));
        let (Some(server), Some(account)) = (server, account) else {
            return Err(Failure::new(Code::Missing, "nobody is logged in there").into());
        };
        if accounts.current.as_ref() == Some(&server) {
            accounts.current = None;
        }
        accounts.save()?;
        let client =
            Client::http(&server, Proof::Token(account.token), arguments.ca_file.as_deref())?;
        let revoked = match &account.id {
            Some(id) => client.ask(Call::delete(&["tokens", id])).await.is_ok(),
            None => false,
        };
        let rest = if revoked {
            "its token is revoked"
        } else {
            "its token was only forgotten and still works; revoke it with `punctual tokens revoke`"
        };
        tell(&format!("Logged out of {server}; {rest}."));
        Ok(())
    })
}
