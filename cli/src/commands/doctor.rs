//! `punctual doctor`: checks a storage, a server, transports and this machine, and prints how to fix each problem.

mod machine;
mod server;
mod storage;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use punctual_backends::open_transport;
use punctual_server::Secret;
use punctual_server::config::Sources;
use serde_json::json;

use super::storage::on_runtime;
use crate::command_context::{env_var, print_line};
use crate::error::{Code, CommandError};

/// Targets of the checks; default: the storage `sqlite:punctual.db` and this machine.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Storage to check: `sqlite:path/to/file.db` or `postgres://user@host/database`; also `PUNCTUAL_STORAGE`.
    #[arg(long, value_name = "ADDRESS")]
    storage: Option<String>,
    /// Server to check; also `PUNCTUAL_SERVER`.
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Transport to check; may be repeated.
    #[arg(long = "transport", value_name = "ADDRESS")]
    transports: Vec<String>,
    /// Configuration whose storage and transports are checked.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// PEM file with the private certificate authority of the server; also `PUNCTUAL_CA_FILE`.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A problem.
pub(super) struct Finding {
    /// Subject, such as `storage`.
    what: &'static str,
    found: String,
    /// How to fix it.
    fix: Option<String>,
}

/// Result of all checks.
#[derive(Default)]
pub(super) struct Diagnosis {
    facts: Vec<(String, String)>,
    findings: Vec<Finding>,
}

impl Diagnosis {
    fn fact(&mut self, what: impl Into<String>, found: impl Into<String>) {
        self.facts.push((what.into(), found.into()));
    }

    fn problem(&mut self, what: &'static str, found: impl Into<String>, fix: impl Into<String>) {
        self.findings.push(Finding { what, found: found.into(), fix: Some(fix.into()) });
    }
}

/// Runs the checks. Exit code 0 when there is no problem, else 1.
pub(crate) fn run(arguments: &DoctorArgs) -> ExitCode {
    on_runtime(async {
        let targets = targets(arguments)?;
        let mut diagnosis = Diagnosis::default();
        if let Some(problem) = &targets.plain_passwords {
            let fix = "see \"TLS\" in docs/guide/security.md";
            diagnosis.problem("encryption", problem.clone(), fix);
        }
        if let Some(key) = &targets.tls_key {
            let contents =
                "the key of the certificate, with which a program can impersonate this server";
            storage::check_private(&mut diagnosis, key, contents);
        }
        if let Some(address) = &targets.storage {
            storage::check(&mut diagnosis, address).await?;
        }
        if let Some(address) = &targets.server {
            server::check(&mut diagnosis, address, arguments.ca_file.as_deref()).await?;
        }
        for address in &targets.transports {
            check_transport(&mut diagnosis, address).await;
        }
        machine::check(&mut diagnosis);
        print(&diagnosis, arguments.json)?;
        match &diagnosis.findings[..] {
            [] => Ok(()),
            [one] => {
                let text = format!("{}: {}", one.what, one.found);
                Err(CommandError::new(Code::Failed, text).into())
            }
            all => {
                Err(CommandError::new(Code::Failed, format!("{} problems found", all.len())).into())
            }
        }
    })
}

/// Targets of the checks.
struct Targets {
    storage: Option<String>,
    server: Option<String>,
    transports: Vec<String>,
    /// Problem of a configuration that sends passwords without encryption.
    plain_passwords: Option<String>,
    /// File with the key of the server's certificate.
    tls_key: Option<PathBuf>,
}

fn targets(arguments: &DoctorArgs) -> Result<Targets> {
    let mut targets = Targets {
        storage: arguments.storage.clone(),
        server: arguments.server.clone(),
        transports: arguments.transports.clone(),
        plain_passwords: None,
        tls_key: None,
    };
    if let Some(file) = &arguments.config {
        let loaded = Sources::of_process(Some(file.clone())).load().map_err(|problems| {
            let all: Vec<String> = problems.0.iter().map(ToString::to_string).collect();
            CommandError::invalid_input(all.join("\n")).hint("fix the configuration first")
        })?;
        let config = loaded.config;
        targets.plain_passwords = config.plain_passwords();
        targets.tls_key = config.server.tls.as_ref().map(|tls| tls.key.clone());
        targets.storage = targets.storage.or(Some(resolved(&config.storage.address)?));
        for transport in config.transports.values() {
            targets.transports.push(resolved(&transport.address)?);
        }
    }
    if targets.storage.is_none() && targets.server.is_none() {
        targets.storage = env_var("PUNCTUAL_STORAGE");
        targets.server = env_var("PUNCTUAL_SERVER");
    }
    if targets.storage.is_none() && targets.server.is_none() && targets.transports.is_empty() {
        targets.storage = Some("sqlite:punctual.db".to_owned());
    }
    Ok(targets)
}

/// Returns an address, read from a variable or a file where the configuration names one.
fn resolved(address: &Secret) -> Result<String> {
    match address {
        Secret::Plain(text) => Ok(text.clone()),
        Secret::Env { env } => env_var(env).ok_or_else(|| {
            CommandError::invalid_input(format!("the variable {env} is not set")).into()
        }),
        Secret::File { file } => std::fs::read_to_string(file)
            .map(|text| text.trim_end_matches(['\r', '\n']).to_owned())
            .with_context(|| format!("cannot read {file}")),
    }
}

async fn check_transport(diagnosis: &mut Diagnosis, address: &str) {
    // The address may contain a password; only its scheme is printed.
    let kind = address.split(':').next().unwrap_or_default().to_owned();
    if let Err(error) = punctual_backends::check_transport(address) {
        let fix = "use a build of punctual that includes it, or another address";
        return diagnosis.problem("transport", format!("{kind}: {error}"), fix);
    }
    let topics = async {
        let opened = open_transport(address).await?;
        let topics = opened.topics().await;
        opened.close().await?;
        topics
    };
    match topics.await {
        Ok(topics) => {
            diagnosis.fact(format!("transport {kind}"), format!("ok, {} topics", topics.len()));
        }
        // It is reachable, but cannot list topics.
        Err(error) if error.kind() == punctual::ErrorKind::Unsupported => {
            diagnosis.fact(format!("transport {kind}"), "ok");
        }
        Err(error) => diagnosis.problem(
            "transport",
            format!("{kind}: {error}"),
            "check its address, whether it runs, and whether this machine can reach it",
        ),
    }
}

fn print(diagnosis: &Diagnosis, as_json: bool) -> Result<()> {
    if as_json {
        let facts: serde_json::Map<String, serde_json::Value> =
            diagnosis.facts.iter().map(|(what, found)| (what.clone(), json!(found))).collect();
        let findings: Vec<_> = diagnosis
            .findings
            .iter()
            .map(|one| json!({ "what": one.what, "found": one.found, "fix": one.fix }))
            .collect();
        let whole = json!({ "facts": facts, "findings": findings });
        return print_line(&serde_json::to_string_pretty(&whole)?);
    }
    let width = diagnosis.facts.iter().map(|(what, _)| what.len()).max().unwrap_or_default();
    for (what, found) in &diagnosis.facts {
        print_line(&format!("  {what:width$}  {found}"))?;
    }
    for finding in &diagnosis.findings {
        print_line(&format!("! {}: {}", finding.what, finding.found))?;
        if let Some(fix) = &finding.fix {
            print_line(&format!("  fix: {fix}"))?;
        }
    }
    if diagnosis.findings.is_empty() {
        print_line("No problems found.")?;
    }
    Ok(())
}
