//! `punctual doctor`: looks at a storage, a server, brokers and this machine, and says what is wrong with
//! them, if anything is, and how to put it right.

mod machine;
mod server;
mod storage;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use punctual_connect::{check_transport, open_transport};
use punctual_server::Secret;
use punctual_server::config::Sources;
use serde_json::json;

use super::storage::on_runtime;
use crate::desk::{line, variable};
use crate::failure::{Code, Failure};

/// What to look at. Without anything named: the storage `sqlite:punctual.db`, and this machine.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// A storage: `sqlite:path/to/file.db` or `postgres://user@host/database`; also `PUNCTUAL_STORAGE`.
    #[arg(long, value_name = "ADDRESS")]
    storage: Option<String>,
    /// A server; also `PUNCTUAL_SERVER`.
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// A transport; may be given more than once.
    #[arg(long = "transport", value_name = "ADDRESS")]
    transports: Vec<String>,
    /// The storage and the transports of this configuration.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A file in PEM with the certificate authority of the server; also `PUNCTUAL_CA_FILE`.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Answer as JSON.
    #[arg(long)]
    json: bool,
}

/// Something that was looked at.
pub(super) struct Finding {
    what: &'static str,
    found: String,
    /// What to do about it; nothing when it is fine.
    fix: Option<String>,
}

/// Everything that was looked at.
#[derive(Default)]
pub(super) struct Checkup {
    facts: Vec<(String, String)>,
    findings: Vec<Finding>,
}

impl Checkup {
    fn fact(&mut self, what: impl Into<String>, found: impl Into<String>) {
        self.facts.push((what.into(), found.into()));
    }

    fn wrong(&mut self, what: &'static str, found: impl Into<String>, fix: impl Into<String>) {
        self.findings.push(Finding { what, found: found.into(), fix: Some(fix.into()) });
    }
}

/// Exit code 0 when all is well, 1 when something is not.
pub(crate) fn run(arguments: &DoctorArgs) -> ExitCode {
    on_runtime(async {
        let wanted = wanted(arguments)?;
        let mut checkup = Checkup::default();
        if let Some(problem) = &wanted.plain_passwords {
            let fix = "see \"TLS\" in docs/guide/security.md";
            checkup.wrong("encryption", problem.clone(), fix);
        }
        if let Some(key) = &wanted.tls_key {
            let holds = "the key of the certificate: who reads it can pose as this server";
            storage::private(&mut checkup, key, holds);
        }
        if let Some(address) = &wanted.storage {
            storage::examine(&mut checkup, address).await?;
        }
        if let Some(address) = &wanted.server {
            server::examine(&mut checkup, address, arguments.ca_file.as_deref()).await?;
        }
        for address in &wanted.transports {
            transport(&mut checkup, address).await;
        }
        machine::examine(&mut checkup);
        print(&checkup, arguments.json)?;
        match &checkup.findings[..] {
            [] => Ok(()),
            [one] => Err(Failure::new(Code::Failed, format!("{}: {}", one.what, one.found)).into()),
            all => {
                Err(Failure::new(Code::Failed, format!("{} things are wrong", all.len())).into())
            }
        }
    })
}

/// What is looked at.
struct Wanted {
    storage: Option<String>,
    server: Option<String>,
    transports: Vec<String>,
    /// What the configuration does with passwords, when that is wrong.
    plain_passwords: Option<String>,
    /// The file with the key of the server's certificate.
    tls_key: Option<PathBuf>,
}

fn wanted(arguments: &DoctorArgs) -> Result<Wanted> {
    let mut wanted = Wanted {
        storage: arguments.storage.clone(),
        server: arguments.server.clone(),
        transports: arguments.transports.clone(),
        plain_passwords: None,
        tls_key: None,
    };
    if let Some(file) = &arguments.config {
        let loaded = Sources::of_process(Some(file.clone())).load().map_err(|problems| {
            let all: Vec<String> = problems.0.iter().map(ToString::to_string).collect();
            Failure::wrong(all.join("\n")).hint("put the configuration right first")
        })?;
        let config = loaded.config;
        wanted.plain_passwords = config.plain_passwords();
        wanted.tls_key = config.server.tls.as_ref().map(|tls| tls.key.clone());
        wanted.storage = wanted.storage.or(Some(resolved(&config.storage.address)?));
        for transport in config.transports.values() {
            wanted.transports.push(resolved(&transport.address)?);
        }
    }
    if wanted.storage.is_none() && wanted.server.is_none() {
        wanted.storage = variable("PUNCTUAL_STORAGE");
        wanted.server = variable("PUNCTUAL_SERVER");
    }
    if wanted.storage.is_none() && wanted.server.is_none() && wanted.transports.is_empty() {
        wanted.storage = Some("sqlite:punctual.db".to_owned());
    }
    Ok(wanted)
}

/// An address whose secret may stand elsewhere.
fn resolved(address: &Secret) -> Result<String> {
    match address {
        Secret::Plain(text) => Ok(text.clone()),
        Secret::Env { env } => variable(env)
            .ok_or_else(|| Failure::wrong(format!("the variable {env} is not set")).into()),
        Secret::File { file } => std::fs::read_to_string(file)
            .map(|text| text.trim_end_matches(['\r', '\n']).to_owned())
            .with_context(|| format!("cannot read {file}")),
    }
}

async fn transport(checkup: &mut Checkup, address: &str) {
    // The address may hold a password; only its scheme is shown.
    let kind = address.split(':').next().unwrap_or_default().to_owned();
    if let Err(error) = check_transport(address) {
        let fix = "use a build of punctual that has it, or another address";
        return checkup.wrong("transport", format!("{kind}: {error}"), fix);
    }
    let looked = async {
        let opened = open_transport(address).await?;
        let topics = opened.topics().await;
        opened.close().await?;
        topics
    };
    match looked.await {
        Ok(topics) => {
            checkup.fact(format!("transport {kind}"), format!("answers; {} topics", topics.len()));
        }
        // It answers and does not list topics.
        Err(error) if error.kind() == punctual::ErrorKind::Unsupported => {
            checkup.fact(format!("transport {kind}"), "answers");
        }
        Err(error) => checkup.wrong(
            "transport",
            format!("{kind}: {error}"),
            "check its address, whether it runs, and whether this machine may reach it",
        ),
    }
}

fn print(checkup: &Checkup, as_json: bool) -> Result<()> {
    if as_json {
        let facts: serde_json::Map<String, serde_json::Value> =
            checkup.facts.iter().map(|(what, found)| (what.clone(), json!(found))).collect();
        let findings: Vec<_> = checkup
            .findings
            .iter()
            .map(|one| json!({ "what": one.what, "found": one.found, "fix": one.fix }))
            .collect();
        let whole = json!({ "facts": facts, "findings": findings });
        return line(&serde_json::to_string_pretty(&whole)?);
    }
    let width = checkup.facts.iter().map(|(what, _)| what.len()).max().unwrap_or_default();
    for (what, found) in &checkup.facts {
        line(&format!("  {what:width$}  {found}"))?;
    }
    for finding in &checkup.findings {
        line(&format!("! {}: {}", finding.what, finding.found))?;
        if let Some(fix) = &finding.fix {
            line(&format!("  fix: {fix}"))?;
        }
    }
    if checkup.findings.is_empty() {
        line("Nothing is wrong.")?;
    }
    Ok(())
}
