//! Cache folder of the user: tools that are made once and used by every run after.

use std::path::PathBuf;

/// Returns where a tool of this name is kept; nothing without a home folder.
pub fn folder(name: &str) -> Option<PathBuf> {
    let named = std::env::var_os("XDG_CACHE_HOME").filter(|folder| !folder.is_empty());
    let folder = match named {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(std::env::var_os("HOME")?).join(".cache"),
    };
    Some(folder.join("punctual").join(name))
}
