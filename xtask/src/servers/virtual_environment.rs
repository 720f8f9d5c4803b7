//! Virtual environments of Python in the user's cache folder, for servers and tools that are missing or too old in
//! the distribution and available in the Python package index.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::cache;

/// The distribution's package that creates one.
pub const PACKAGE: &str = "python3-venv";

/// A virtual environment with a few packages in it.
pub struct VirtualEnvironment {
    /// Its name.
    pub name: &'static str,
    /// The packages and their versions, as `pip` reads them.
    pub requirements: &'static [&'static str],
}

impl VirtualEnvironment {
    /// Returns the path of one of its programs.
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        Some(program_in(&self.folder()?, name))
    }

    /// Creates it, or installs the required packages.
    pub fn create(&self) -> Result<()> {
        let folder = self.folder().context("no home folder for a virtual environment of Python")?;
        run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        run(Command::new(program_in(&folder, "python")).args(pip).args(self.requirements))
    }

    fn folder(&self) -> Option<PathBuf> {
        cache::folder(self.name)
    }
}

/// Returns whether a Python runs a script without an error.
pub fn runs(python: &Path, script: &str) -> bool {
    let mut command = Command::new(python);
    let command = command.args(["-c", script]).stdin(Stdio::null());
    let ended = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    ended.is_ok_and(|status| status.success())
}

fn program_in(folder: &Path, name: &str) -> PathBuf {
    folder.join("bin").join(name)
}

fn run(command: &mut Command) -> Result<()> {
    let shown = format!("{command:?}");
    let status = command.stdout(std::io::stderr()).status().with_context(|| shown.clone())?;
    ensure!(status.success(), "{shown} ended with {status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_is_shown() {
        let error = run(&mut Command::new("false")).unwrap_err().to_string();
        assert!(error.contains("\"false\" ended with"), "{error}");
        let error = run(&mut Command::new("/no/program/of/this/name")).unwrap_err().to_string();
        assert!(error.contains("/no/program/of/this/name"), "{error}");
    }
}
