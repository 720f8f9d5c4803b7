//! The dashboard in a real browser: Debian's Chromium, driven from Node, against the program as it is built.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cargo::pass_or_fail;
use crate::needs;
use crate::tally::Tally;
use crate::workspace::Workspace;

/// Where the tests are.
const FOLDER: &str = "e2e";
/// What `--without` calls it.
pub(crate) const NAME: &str = "browser";
/// What it needs: a file that is there when all is well, and the package that brings it.
const NEEDS: [(&str, &str); 4] = [
    ("/usr/bin/chromium", "chromium"),
    ("/usr/bin/node", "nodejs"),
    ("/usr/bin/npm", "npm"),
    ("/usr/bin/python3", "python3"),
];
/// The tests of its modules, which need no browser.
const MODULES: &str = "dashboard/tests";

/// Installs what is missing.
pub(crate) fn provide() -> Result<()> {
    let missing = NEEDS.iter().filter(|(file, _)| !Path::new(file).exists());
    let packages: Vec<String> = missing.map(|(_, package)| (*package).to_owned()).collect();
    needs::provide_packages(&packages).with_context(|| {
        format!(
            "the browser tests need {}; leave them out with --without {NAME}",
            packages.join(", ")
        )
    })
}

/// Drives the program; one of its storages has so many rows.
pub(crate) fn run(workspace: &Workspace, program: &Path, rows: u32) -> Result<Tally> {
    provide()?;
    let mut modules = Command::new("node");
    modules.args(["--test", MODULES]).current_dir(workspace.path("."));
    let mut tally = pass_or_fail(modules)?;
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
    tally += pass_or_fail(tests)?;
    Ok(tally)
}
