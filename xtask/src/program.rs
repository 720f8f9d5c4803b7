//! The program as it is built for tests that start it.

use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::cargo::cargo;
use crate::workspace::Workspace;

/// Builds the program and answers where it is.
pub(crate) fn build(workspace: &Workspace) -> Result<PathBuf> {
    let built = cargo(workspace, &["build", "-p", "punctual-cli"]).status()?;
    if !built.success() {
        bail!("the program could not be built");
    }
    Ok(workspace.target().join("debug/punctual"))
}
