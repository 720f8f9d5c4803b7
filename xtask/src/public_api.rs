//! Public API: the items that applications may name, recorded in the repository so that reviews show every change.
//!
//! The list is read from rustdoc's JSON, which only a nightly toolchain writes by itself. `rustdoc.sh` allows the
//! format for the recorded crates alone: set for all of cargo, the variable would have dependencies compiled again.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cargo::{cargo, pass_or_fail};
use crate::step::{Phase, Steps};
use crate::tally::Tally;
use crate::workspace::Workspace;

/// Crates whose public items are recorded; the same names are in `rustdoc.sh`.
const RECORDED: [&str; 2] = ["punctual", "punctual_schedule"];
const FOLDER: &str = "docs/public-api";
const WRAPPER: &str = include_str!("rustdoc.sh");

/// Writes the lists of public items.
pub(crate) fn record(workspace: &Workspace, steps: &mut Steps) {
    steps.run_as(Phase::Compile, "rustdoc", || document(workspace));
    steps.run("public API", || {
        fs::create_dir_all(workspace.path(FOLDER)).context(FOLDER)?;
        for name in RECORDED {
            let path = workspace.path(&recorded(name));
            fs::write(&path, list(workspace, name)?).with_context(|| recorded(name))?;
            println!("    wrote {}", recorded(name));
        }
        Ok(Tally::ONE_PASSED)
    });
}

/// Builds the pages of every library, warnings denied, and the JSON of the recorded crates.
///
/// The binary shares the library's name, both would be written to one folder, and the pages of a binary are useless: it
/// is left out. No crate has examples of cargo's kind; asking for them makes cargo choose the features that clippy's
/// build had, and use that.
pub(crate) fn document(workspace: &Workspace) -> Result<Tally> {
    let wrapper = write_wrapper(workspace)?;
    if RECORDED.iter().any(|name| !json(workspace, name).exists()) {
        // Pages that were built without the wrapper would be called fresh.
        pass_or_fail(cargo(workspace, &["clean", "--doc"]))?;
    }
    let line = ["doc", "--workspace", "--all-features", "--no-deps", "--lib", "--examples"];
    let mut command: Command = cargo(workspace, &line);
    command.env("RUSTDOCFLAGS", "-D warnings").env("RUSTDOC", wrapper);
    pass_or_fail(command)
}

/// Fails when the public items are not the recorded ones. [`document`] goes first.
pub(crate) fn check(workspace: &Workspace) -> Result<Tally> {
    for name in RECORDED {
        let path = recorded(name);
        let before = fs::read_to_string(workspace.path(&path)).unwrap_or_default();
        let now = list(workspace, name)?;
        let (added, removed) = (missing_in(&before, &now), missing_in(&now, &before));
        if !added.is_empty() || !removed.is_empty() {
            for (sign, lines) in [("+", added), ("-", removed)] {
                for line in lines {
                    println!("    {sign} {line}");
                }
            }
            bail!(
                "the public items of {name} are not those of {path}; run `cargo xtask public-api`"
            );
        }
    }
    Ok(Tally::ONE_PASSED)
}

/// Returns the lines of `second` that `first` does not have.
fn missing_in<'a>(first: &str, second: &'a str) -> Vec<&'a str> {
    let known: std::collections::BTreeSet<&str> = first.lines().collect();
    second.lines().filter(|line| !known.contains(line)).collect()
}

fn list(workspace: &Workspace, name: &str) -> Result<String> {
    let api = public_api::Builder::from_rustdoc_json(json(workspace, name))
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()
        .with_context(|| format!("read the JSON of {name}"))?;
    Ok(api.to_string())
}

fn recorded(name: &str) -> String {
    format!("{FOLDER}/{name}.txt")
}

fn json(workspace: &Workspace, name: &str) -> PathBuf {
    workspace.target().join("doc").join(format!("{name}.json"))
}

fn write_wrapper(workspace: &Workspace) -> Result<PathBuf> {
    let path = workspace.target().join("rustdoc.sh");
    fs::create_dir_all(workspace.target()).context("create the target folder")?;
    fs::write(&path, WRAPPER).context("write rustdoc.sh")?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
        .context("make rustdoc.sh executable")?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recorded_crate_is_documented_as_json() {
        for name in RECORDED {
            assert!(WRAPPER.contains(&format!("--crate-name {name} ")), "{name}");
        }
    }

    #[test]
    fn only_lines_that_are_new_are_listed() {
        assert_eq!(missing_in("a\nb\n", "b\nc\n"), ["c"]);
    }
}
