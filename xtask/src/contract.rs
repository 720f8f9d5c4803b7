//! Contract of the REST API: the document is valid `OpenAPI` 3.1, and the responses of the program match it. Two
//! tools from the Python package index check this: a validator, and schemathesis, which sends valid and invalid
//! requests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use xtask::servers::readiness::is_ready;
use xtask::servers::virtual_environment::{PACKAGE, VirtualEnvironment, runs};
use xtask::servers::{Durability, Place, Running, Server};

use crate::cargo::{Empty, count_tests_by, pass_or_fail};
use crate::local_servers;
use crate::needs;
use crate::tally::{Runner, Tally};
use crate::workspace::Workspace;

/// Its name in `--with` and `--without`.
pub(crate) const NAME: &str = "contract";
/// Its name in reports.
pub(crate) const STEP: &str = "the API and its description";
const TOOLS: VirtualEnvironment = VirtualEnvironment {
    name: "contract",
    requirements: &["schemathesis==4.32.5", "openapi-spec-validator==0.9.0"],
};
/// Fails unless the environment has the requirements.
const LOOK: &str = "from importlib.metadata import version as v\nimport sys\n\
     sys.exit((v('schemathesis'), v('openapi-spec-validator')) != ('4.32.5', '0.9.0'))";
const VALIDATE: &str = include_str!("contract.py");
/// Timeout of a run in seconds; it takes about a minute.
const LEN_MAX: &str = "600";
/// The checks. That every value of the right type is accepted is not checked: a cron expression, a duration or the
/// name of a zone is a string in the document, and most strings are invalid.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
     response_headers_conformance,response_schema_conformance,negative_data_rejection,\
     missing_required_header,unsupported_method,allow_header_conformance,use_after_free,\
     ensure_resource_availability";
/// Operations that are not called: the event stream has no end, and a claim waits for messages.
const LEFT_OUT: [&str; 2] = ["/api/v1/events", "/api/v1/work/claim"];
/// Jobs of the test data.
const CONFIGURATION: &str = "[jobs.nightly]\ncron = \"30 2 * * *\"\nzone = \"Europe/Warsaw\"\n\
     http = { url = \"http://127.0.0.1:9/\", method = \"POST\" }\n\
     [jobs.often]\nevery = \"1h\"\nhttp = { url = \"http://127.0.0.1:9/\" }\n";

/// Starts the program and checks its document and its responses.
pub(crate) fn run(workspace: &Workspace, program: &Path) -> Result<Tally> {
    let python = provide().with_context(|| {
        format!("the tools that ask the API are not here; leave them out with --without {NAME}")
    })?;
    let program = Program { file: program.to_owned() };
    // There is one for each run of the tools.
    let program: &'static Program = Box::leak(Box::new(program));
    let records = local_servers::records(workspace);
    let running = Running::start(program, Durability::Relaxed, &records)?;
    let document = format!("{}/api/openapi.json", running.address());
    let script = running.place().folder.join("validate.py");
    fs::write(&script, VALIDATE).with_context(|| format!("write {}", script.display()))?;
    let mut validate = Command::new(&python);
    validate.arg(script).arg(&document);
    let mut tally = pass_or_fail(validate)?;
    let calls = ask(&python, &document, &workspace.target());
    tally += count_tests_by(Runner::Schemathesis, calls, Empty::Refused)?;
    Ok(tally)
}

/// Installs the tools and returns the path of their Python.
pub(crate) fn provide() -> Result<PathBuf> {
    let python = TOOLS.program("python").context("no home folder for the tools")?;
    if runs(&python, LOOK) {
        return Ok(python);
    }
    if !Path::new("/usr/bin/python3").exists() || TOOLS.create().is_err() {
        needs::provide_packages(&[PACKAGE.to_owned()])?;
        TOOLS.create()?;
    }
    if !runs(&python, LOOK) {
        bail!("{:?} are not there after installing", TOOLS.requirements);
    }
    Ok(python)
}

/// Tests every operation but those that wait, with a fixed seed and a bounded number of requests.
fn ask(python: &Path, document: &str, target: &Path) -> Command {
    let mut command = Command::new("timeout");
    command
        .arg(LEN_MAX)
        .arg(python.with_file_name("st"))
        .args([
            "run",
            document,
            "--checks",
            CHECKS,
            "--phases",
            "examples,coverage,fuzzing,stateful",
        ])
        .args(["--seed", "1", "--max-examples", "20", "--generation-database", "none"])
        .args(["--workers", "1", "--request-timeout", "20", "--continue-on-failure"])
        .args(["--warnings", "off"]);
    for path in LEFT_OUT {
        command.args(["--exclude-path", path]);
    }
    // It leaves its notes where it is started.
    command.current_dir(target);
    command
}

/// The program as a server.
struct Program {
    file: PathBuf,
}

impl Server for Program {
    fn name(&self) -> &'static str {
        NAME
    }

    fn folder(&self) -> &'static str {
        "server"
    }

    fn variable(&self) -> &'static str {
        "PUNCTUAL_CONTRACT_URL"
    }

    fn is_installed(&self) -> bool {
        self.file.exists()
    }

    fn packages(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn prepare(&self, place: &Place) -> Result<Command> {
        let file = place.folder.join("punctual.toml");
        let listen = format!("[server]\nlisten = \"127.0.0.1:{}\"\n", place.port);
        fs::write(&file, listen + CONFIGURATION)
            .with_context(|| format!("write {}", file.display()))?;
        let storage = format!("sqlite:{}", place.folder.join("punctual.db").display());
        let mut command = Command::new(&self.file);
        command.args(["serve", "--config"]).arg(file).args(["--storage", &storage]);
        Ok(command)
    }

    fn is_ready(&self, place: &Place) -> bool {
        is_ready(place.port, "/health/ready")
    }

    fn address(&self, place: &Place) -> String {
        format!("http://127.0.0.1:{}", place.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_without_a_program_is_not_ready() {
        let place = Place::create(NAME, Durability::Relaxed).unwrap();
        let program = Program { file: PathBuf::from("/no/program/of/this/name") };
        assert!(!program.is_ready(&place) && !program.is_installed());
        place.remove();
    }

    #[test]
    fn excluded_paths_are_passed_on() {
        let command = ask(Path::new("bin/python"), "http://127.0.0.1/x", Path::new("."));
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        let left_out = words.windows(2).filter(|pair| pair[0] == "--exclude-path");
        assert_eq!(left_out.map(|pair| &*pair[1]).collect::<Vec<_>>(), LEFT_OUT);
        assert!(words.iter().any(|word| word == "bin/st"));
    }
}
