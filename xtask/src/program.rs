//! The program `punctual`, built alone for the commands that need nothing else.

use std::path::PathBuf;

use anyhow::Result;

use crate::build::BuildOutput;
use crate::cargo::cargo;
use crate::workspace::Workspace;

/// Builds the program and returns its path.
pub(crate) fn build(workspace: &Workspace) -> Result<PathBuf> {
    BuildOutput::by(cargo(workspace, &["build", "-p", "punctual-cli"]))?.program("punctual")
}
