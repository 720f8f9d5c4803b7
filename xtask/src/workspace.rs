//! Workspace: its folder and its files.
//!
//! Files are read from the folder, not from version control, so that the rules also apply to new files and to a
//! source archive.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::tidy::Source;

/// Folders without hand-written files.
const SKIPPED: [&str; 3] = [".git", "node_modules", "vendor"];
/// Endings of the text files that the rules read.
const TEXTS: [&str; 9] = ["rs", "md", "toml", "sql", "sh", "js", "mjs", "css", "html"];

pub(crate) struct Workspace {
    root: PathBuf,
}

impl Workspace {
    pub(crate) fn find() -> Result<Self> {
        let own = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = own.parent().context("the tools live in a workspace")?;
        Ok(Self { root: root.to_owned() })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    /// Returns the target folder, which can be deleted at any time.
    pub(crate) fn target(&self) -> PathBuf {
        let configured = std::env::var_os("CARGO_TARGET_DIR").filter(|folder| !folder.is_empty());
        configured.map_or_else(|| self.path("target"), |folder| self.root.join(folder))
    }

    pub(crate) fn has(&self, relative: &str) -> bool {
        self.path(relative).exists()
    }

    /// Returns the existing back-ends by folder name: `storages/*` and `transports/*`.
    pub(crate) fn back_ends(&self) -> Vec<String> {
        let mut names: Vec<String> = ["storages", "transports"]
            .iter()
            .filter_map(|family| fs::read_dir(self.path(family)).ok())
            .flat_map(Iterator::flatten)
            .filter(|entry| entry.path().join("Cargo.toml").is_file())
            // The column codecs that the SQL storages share.
            .filter(|entry| entry.file_name() != "columns")
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// Returns every text file, sorted by path.
    pub(crate) fn sources(&self) -> Result<Vec<Source>> {
        self.files(&TEXTS)
    }

    /// Returns every file with one of these endings, and `.ci/run`, sorted by path.
    pub(crate) fn files(&self, endings: &[&str]) -> Result<Vec<Source>> {
        let mut sources = Vec::new();
        collect(&self.root, &self.root, endings, &mut sources)?;
        sources.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(sources)
    }
}

fn collect(root: &Path, folder: &Path, endings: &[&str], sources: &mut Vec<Source>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            // Only at the root: `server/src/targets` is ours.
            let is_built = folder == root && name.starts_with("target");
            if !SKIPPED.contains(&&*name) && !is_built {
                collect(root, &path, endings, sources)?;
            }
        } else if is_text(&path, endings) {
            let text =
                fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
            let relative = path.strip_prefix(root)?.to_string_lossy();
            sources.push(Source::new(relative.replace('\\', "/"), text));
        }
    }
    Ok(())
}

fn is_text(path: &Path, endings: &[&str]) -> bool {
    let ending = path.extension().unwrap_or_default();
    endings.iter().any(|text| ending == *text) || path.ends_with(".ci/run")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_files_of_this_workspace() {
        let sources = Workspace::find().unwrap().sources().unwrap();
        let has = |path: &str| sources.iter().any(|source| source.path == path);
        assert!(has("xtask/src/workspace.rs"));
        assert!(has("Cargo.toml"));
        assert!(has("server/src/targets/guard.rs"));
        assert!(!sources.iter().any(|source| source.path.starts_with("target")));
    }
}
