//! cargo-deny: licences, sources and versions of the dependencies, as `deny.toml` allows them.
//!
//! It is compiled once, without optimisation, and kept in the user's cache folder. Known
//! vulnerabilities (advisories) are a separate check: their database comes from the internet, and a
//! new entry would fail an unrelated change.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow, bail};
use xtask::servers::cache;

use crate::cargo::{cargo, pass_or_fail};
use crate::tally::Tally;
use crate::workspace::Workspace;

/// Name of the check of advisories in `--without`.
pub(crate) const ADVISORIES: &str = "advisories";
const PROGRAM: &str = "cargo-deny";
const VERSION: &str = "0.20.2";
/// Settings for the fastest compilation.
const SETTINGS: [(&str, &str); 2] =
    [("CARGO_INCREMENTAL", "0"), ("CARGO_PROFILE_DEV_DEBUG", "false")];

/// The program, installed or being installed.
pub(crate) struct Deny {
    program: JoinHandle<Result<PathBuf>>,
}

impl Deny {
    /// Finds the program, or begins to install it in parallel with the next steps.
    pub(crate) fn provide(workspace: &Workspace) -> Self {
        let root = cache::folder(&format!("{PROGRAM}-{VERSION}"));
        let target = workspace.target().join("tools");
        let own = root.as_ref().map(|root| root.join("bin").join(PROGRAM));
        let found = [Some(PathBuf::from(PROGRAM)), own.clone()];
        if let Some(program) = found.into_iter().flatten().find(|program| is_wanted(program)) {
            return Self { program: thread::spawn(move || Ok(program)) };
        }
        println!("    installing {PROGRAM} {VERSION} beside the other steps, once");
        let command = root.map(|root| install(workspace, &root, &target));
        let program = thread::spawn(move || {
            let mut command = command.context("no home folder for the tools")?;
            let output = command.output().context("start cargo")?;
            let _ = fs::remove_dir_all(&target);
            if !output.status.success() {
                let errors = String::from_utf8_lossy(&output.stderr);
                bail!("{PROGRAM} {VERSION} could not be installed:\n{errors}");
            }
            own.context("no home folder for the tools")
        });
        Self { program }
    }

    /// Checks licences, sources and bans. Uses the registry only for packages that are not downloaded yet.
    pub(crate) fn check(self, workspace: &Workspace) -> Result<Tally> {
        self.run(workspace, &["bans", "licenses", "sources"])
    }

    /// Checks for known vulnerabilities and yanked versions.
    pub(crate) fn advisories(self, workspace: &Workspace) -> Result<Tally> {
        self.run(workspace, &["advisories"]).with_context(|| {
            format!("it needs the advisory database; leave it out with --without {ADVISORIES}")
        })
    }

    fn run(self, workspace: &Workspace, checks: &[&str]) -> Result<Tally> {
        let program = self.program.join().map_err(|_| anyhow!("the installation panicked"))??;
        let mut command = Command::new(program);
        // Warnings are counted, not listed: they are many, and all about two versions of a crate.
        command.args(["--locked", "--log-level", "error", "check", "--show-stats"]).args(checks);
        pass_or_fail(in_workspace(command, workspace))
    }
}

fn in_workspace(mut command: Command, workspace: &Workspace) -> Command {
    command.current_dir(workspace.root());
    command
}

/// Lower priority than that of the other steps, so that it uses mostly idle CPU time.
fn install(workspace: &Workspace, root: &Path, target: &Path) -> Command {
    let cargo = cargo(workspace, &["install", PROGRAM, "--locked", "--version", VERSION]);
    let mut command = Command::new("nice");
    command.args(["-n", "5"]).arg(cargo.get_program()).args(cargo.get_args());
    command.args(["--debug", "--force", "--root"]).arg(root).arg("--target-dir").arg(target);
    command.envs(SETTINGS).stdin(Stdio::null());
    in_workspace(command, workspace)
}

/// Returns whether a program is cargo-deny in the version whose `deny.toml` this is.
fn is_wanted(program: &Path) -> bool {
    let output = Command::new(program).arg("--version").stderr(Stdio::null()).output();
    output.is_ok_and(|output| is_version(&String::from_utf8_lossy(&output.stdout)))
}

fn is_version(text: &str) -> bool {
    text.trim() == format!("{PROGRAM} {VERSION}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_not_taken() {
        assert!(is_version("cargo-deny 0.20.2\n"));
        assert!(!is_version("cargo-deny 0.14.2\n"));
        assert!(!is_wanted(Path::new("/no/program/of/this/name")));
    }

    #[test]
    fn it_is_installed_as_locked_in_its_own_folders() {
        let workspace = Workspace::find().unwrap();
        let command = install(&workspace, Path::new("/cache"), Path::new("/target/tools"));
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        for part in
            [["--version", VERSION], ["--root", "/cache"], ["--target-dir", "/target/tools"]]
        {
            assert!(words.windows(2).any(|pair| pair == part), "{words:?}");
        }
        assert!(words.iter().any(|word| word == "--locked"));
    }
}
