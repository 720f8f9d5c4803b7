//! Build of everything that the test command runs: one profile, one set of features, once.
//!
//! One call of cargo builds every program and every test binary, which are started by their paths. A
//! second call for one package (`cargo run -p ...`) would choose other features for the dependencies
//! and compile them again.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::cargo::cargo;
use crate::workspace::Workspace;

/// Arguments that select every package and feature: the same for the build, the runner of the tests and the doc tests.
pub(crate) const EVERYTHING: [&str; 2] = ["--workspace", "--all-features"];

/// The executables of one build.
#[derive(Debug, Default)]
pub(crate) struct BuildOutput {
    executables: Vec<Executable>,
}

#[derive(Debug, PartialEq, Eq)]
struct Executable {
    package: String,
    target: String,
    is_test: bool,
    path: PathBuf,
}

impl BuildOutput {
    /// Builds every program and every test of the workspace.
    pub(crate) fn everything(workspace: &Workspace) -> Result<Self> {
        let mut command = cargo(workspace, &["build"]);
        command.args(EVERYTHING).args(["--tests", "--bins"]);
        Self::by(command)
    }

    /// Runs a build and returns its executables.
    pub(crate) fn by(mut command: Command) -> Result<Self> {
        command.args(["--message-format", "json-render-diagnostics"]).stdout(Stdio::piped());
        let output = command.spawn().and_then(std::process::Child::wait_with_output);
        let output = output.context("start cargo")?;
        if !output.status.success() {
            bail!("the build ended with {}", output.status);
        }
        let lines = String::from_utf8_lossy(&output.stdout);
        Ok(Self { executables: lines.lines().filter_map(executable).collect() })
    }

    /// Returns the path of a program.
    pub(crate) fn program(&self, target: &str) -> Result<PathBuf> {
        self.find(target, |executable| !executable.is_test && executable.target == target)
    }

    /// Returns the path of a test binary of a package.
    pub(crate) fn test(&self, package: &str, target: &str) -> Result<PathBuf> {
        self.find(target, |executable| {
            executable.is_test && executable.package == package && executable.target == target
        })
    }

    fn find(&self, target: &str, fits: impl Fn(&Executable) -> bool) -> Result<PathBuf> {
        let found = self.executables.iter().find(|executable| fits(executable));
        let found = found.with_context(|| format!("the build made no executable `{target}`"))?;
        Ok(found.path.clone())
    }
}

/// Reads one message of cargo; only those about an executable count.
fn executable(line: &str) -> Option<Executable> {
    let message: Value = serde_json::from_str(line).ok()?;
    Some(Executable {
        package: package_name(message["package_id"].as_str()?).to_owned(),
        target: message["target"]["name"].as_str()?.to_owned(),
        is_test: message["profile"]["test"].as_bool()?,
        path: message["executable"].as_str()?.into(),
    })
}

/// `path+file:///x/core#punctual@0.1.0` and `path+file:///x/xtask#0.1.0` name their package differently.
fn package_name(id: &str) -> &str {
    let (path, fragment) = id.rsplit_once('#').unwrap_or(("", id));
    match fragment.split_once('@') {
        Some((name, _)) => name,
        None => path.rsplit('/').next().unwrap_or(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST: &str = r#"{"reason":"compiler-artifact","package_id":"path+file:///x/core#punctual@0.1.0",
        "target":{"name":"it"},"profile":{"test":true},"executable":"/x/target/debug/deps/it-1"}"#;
    const PROGRAM: &str = r#"{"reason":"compiler-artifact","package_id":"path+file:///x/xtask#0.1.0",
        "target":{"name":"xtask"},"profile":{"test":false},"executable":"/x/target/debug/xtask"}"#;
    const LIBRARY: &str = r#"{"reason":"compiler-artifact","package_id":"path+file:///x/core#punctual@0.1.0",
        "target":{"name":"punctual"},"profile":{"test":false},"executable":null}"#;

    #[test]
    fn programs_and_tests_are_found_by_name() {
        let lines = [TEST, PROGRAM, LIBRARY, r#"{"reason":"build-finished","success":true}"#, ""];
        let built = BuildOutput { executables: lines.into_iter().filter_map(executable).collect() };
        assert_eq!(
            built.test("punctual", "it").unwrap(),
            PathBuf::from("/x/target/debug/deps/it-1")
        );
        assert_eq!(built.program("xtask").unwrap(), PathBuf::from("/x/target/debug/xtask"));
        let missing = built.program("it").unwrap_err().to_string();
        assert!(missing.contains("`it`"), "{missing}");
        assert!(built.test("punctual-nats", "it").is_err());
    }
}
