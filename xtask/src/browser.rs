//! Browser tests of the dashboard: Debian's Chromium, controlled from Node, with the built program.

use std::path::Path;
use std::process::Command;
use std::{fs, io};

use anyhow::{Context, Result, bail};

use crate::cargo::{Empty, count_tests_by};
use crate::interpreters::starts;
use crate::needs;
use crate::tally::{Runner, Tally};
use crate::workspace::Workspace;

/// Folder of the tests.
const FOLDER: &str = "testing/browser";
/// Its name in `--without`.
pub(crate) const NAME: &str = "browser";
/// The browser that the flows start.
const BROWSER: &str = "/usr/bin/chromium";
/// Other required programs, and their packages.
const PROGRAMS: [(&str, &str); 3] = [("node", "nodejs"), ("npm", "npm"), ("python3", "python3")];
/// Folder of the tests of its modules, which need no browser.
const MODULES: &str = "dashboard/tests";
const MODULE_ENDING: &str = ".test.js";

/// Installs missing programs.
pub(crate) fn provide() -> Result<()> {
    let missing = PROGRAMS.iter().filter(|(program, _)| !starts(program));
    let mut packages: Vec<String> = missing.map(|(_, package)| (*package).to_owned()).collect();
    if !Path::new(BROWSER).exists() {
        packages.push("chromium".to_owned());
    }
    needs::provide_packages(&packages).with_context(|| {
        format!(
            "the browser tests need {}; leave them out with --without {NAME}",
            packages.join(", ")
        )
    })
}

/// Runs the browser tests; one of their storages has this number of rows.
pub(crate) fn run(workspace: &Workspace, program: &Path, rows: u32) -> Result<Tally> {
    provide()?;
    let mut tally = modules(workspace)?;
    let folder = workspace.path(FOLDER);
    let installed = Command::new("npm")
        .args(["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--silent"])
        .current_dir(&folder)
        .status()
        .context("npm cannot be run")?;
    if !installed.success() {
        bail!("npm ci in {FOLDER} ended with {installed}");
    }
    let mut tests = Command::new("npm");
    tests
        .args(["test", "--silent"])
        .current_dir(&folder)
        .env("PUNCTUAL_PROGRAM", program)
        .env("PUNCTUAL_ROWS", rows.to_string())
        .env("PUNCTUAL_SHOTS", workspace.target().join("screenshots"));
    tally += count_tests_by(Runner::Node, tests, Empty::Refused)?;
    Ok(tally)
}

/// Runs the tests of the modules. The files are named one by one: a folder is not accepted by every
/// version of Node.
fn modules(workspace: &Workspace) -> Result<Tally> {
    let mut command = Command::new("node");
    command.args(["--test", "--test-reporter=spec"]).current_dir(workspace.root());
    let mut files = fs::read_dir(workspace.path(MODULES))
        .and_then(|entries| {
            entries
                .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
                .collect::<io::Result<Vec<String>>>()
        })
        .with_context(|| format!("list {MODULES}"))?;
    files.retain(|file| file.ends_with(MODULE_ENDING));
    if files.is_empty() {
        bail!("no file in {MODULES} ends with {MODULE_ENDING}");
    }
    files.sort();
    command.args(files.iter().map(|file| format!("{MODULES}/{file}")));
    count_tests_by(Runner::Node, command, Empty::Refused)
}
