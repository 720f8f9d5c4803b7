//! Cargo commands; a test run passes only when tests ran.
//!
//! The standard harness reports an empty run as "ok", so a filter with a typing mistake would always
//! pass. Therefore the tests of a run are counted, and none is a failure.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

use anyhow::{Context, Result, bail};

use crate::tally::{Runner, Tally, file_without_tests};
use crate::workspace::Workspace;

/// Whether a test run without a test is a failure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Empty {
    Allowed,
    Refused,
}

pub(crate) fn cargo(workspace: &Workspace, arguments: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.args(arguments).current_dir(workspace.root());
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_this_package(name)) {
        command.env_remove(name);
    }
    command
}

/// Returns whether `cargo run` has set this variable for the tool itself. Some build scripts depend on such variables,
/// and their dependents would be compiled again whenever cargo is called with other values.
fn is_of_this_package(variable: &OsStr) -> bool {
    let name = variable.to_string_lossy();
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

/// Returns whether `cargo <name>` exists on this machine.
pub(crate) fn has_subcommand(workspace: &Workspace, name: &str) -> bool {
    cargo(workspace, &[name, "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Runs a command that passes or fails as a whole.
pub(crate) fn pass_or_fail(mut command: Command) -> Result<Tally> {
    announce(&command);
    let status = command.status().with_context(|| describe(&command))?;
    if !status.success() {
        bail!("`{}` ended with {status}", describe(&command));
    }
    Ok(Tally::ONE_PASSED)
}

/// Runs a test command of the standard harness, prints its output as it arrives and counts its tests.
pub(crate) fn count_tests(command: Command, empty: Empty) -> Result<Tally> {
    count_tests_by(Runner::Harness, command, empty)
}

/// Does the same for another runner.
pub(crate) fn count_tests_by(runner: Runner, mut command: Command, empty: Empty) -> Result<Tally> {
    announce(&command);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| describe(&command))?;
    let tally = Mutex::new(Tally::default());
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    thread::scope(|scope| {
        let count = |line: &str| {
            if let Ok(mut tally) = tally.lock() {
                *tally += Tally::from_line(runner, line);
            }
        };
        scope.spawn(move || {
            follow(stdout, |line| {
                println!("{line}");
                if let (Runner::Node, Some(file)) = (runner, file_without_tests(line)) {
                    eprintln!("{file} declares no test");
                }
                count(line);
            });
        });
        scope.spawn(move || {
            follow(stderr, |line| {
                eprintln!("{line}");
                count(line);
            });
        });
    });
    let status = child.wait().with_context(|| describe(&command))?;
    let tally = tally.into_inner().unwrap_or_default();
    judge(tally, status.success(), empty).with_context(|| describe(&command))
}

fn follow(stream: Option<impl Read>, see: impl Fn(&str)) {
    let Some(stream) = stream else { return };
    for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
        see(&String::from_utf8_lossy(&line));
    }
}

fn judge(tally: Tally, success: bool, empty: Empty) -> Result<Tally> {
    // It broke before or beside the tests: a build error, a crash of the harness.
    if !success && tally.failed == 0 {
        bail!("failed without a failing test");
    }
    if tally.ran() == 0 && empty == Empty::Refused {
        bail!("no test ran: a filter or a test of this name is missing");
    }
    Ok(tally)
}

fn announce(command: &Command) {
    println!("    {}", describe(command));
}

fn describe(command: &Command) -> String {
    let settings = command.get_envs().filter_map(|(name, value)| {
        let value = value?.to_string_lossy();
        Some(format!("{}={value:?}", name.to_string_lossy()))
    });
    let program = Path::new(command.get_program());
    let program = match program.file_stem() {
        Some(name) if name == "cargo" => "cargo".to_owned(),
        _ => program.display().to_string(),
    };
    let words = command.get_args().map(|word| word.to_string_lossy().into_owned());
    settings.chain([program]).chain(words).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: Tally = Tally { passed: 3, failed: 0, ignored: 1 };

    #[test]
    fn an_empty_run_is_refused_unless_allowed() {
        assert!(judge(Tally::default(), true, Empty::Refused).is_err());
        assert!(judge(Tally::default(), true, Empty::Allowed).is_ok());
        assert_eq!(judge(SOME, true, Empty::Refused).unwrap(), SOME);
    }

    #[test]
    fn a_run_that_breaks_without_a_failing_test_is_an_error() {
        assert!(judge(SOME, false, Empty::Refused).is_err());
    }

    #[test]
    fn failing_tests_keep_their_count() {
        let tally = Tally { failed: 2, ..SOME };
        assert_eq!(judge(tally, false, Empty::Refused).unwrap().failed, 2);
    }

    /// With these variables alternating `cargo build` and `cargo xtask test` compiled ring and its dependents each time.
    #[test]
    fn variables_that_cargo_sets_for_the_tool_are_not_passed_on() {
        let workspace = Workspace::find().unwrap();
        let command = cargo(&workspace, &["build"]);
        let removed: Vec<_> =
            command.get_envs().filter(|(_, value)| value.is_none()).map(|(name, _)| name).collect();
        assert!(removed.contains(&OsStr::new("CARGO_PKG_NAME")), "{removed:?}");
        assert!(removed.contains(&OsStr::new("CARGO_MANIFEST_DIR")), "{removed:?}");
        assert!(!is_of_this_package(OsStr::new("CARGO_HOME")));
        assert!(!is_of_this_package(OsStr::new("CARGO_INCREMENTAL")));
    }

    #[test]
    fn a_command_is_shown_with_its_settings() {
        let workspace = Workspace::find().unwrap();
        let mut command = cargo(&workspace, &["test", "-p", "punctual"]);
        command.env("PUNCTUAL_SIM_SEED", "7");
        assert_eq!(describe(&command), "PUNCTUAL_SIM_SEED=\"7\" cargo test -p punctual");
        let mut command = Command::new("node");
        command.arg("--test");
        assert_eq!(describe(&command), "node --test");
    }
}
