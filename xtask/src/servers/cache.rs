//! Cache folder of the user: tools that are installed once and used by later runs.

use std::path::PathBuf;

/// Returns the folder of a tool; `None` without a home folder.
pub fn folder(name: &str) -> Option<PathBuf> {
    let named = std::env::var_os("XDG_CACHE_HOME").filter(|folder| !folder.is_empty());
    let folder = match named {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(std::env::var_os("HOME")?).join(".cache"),
    };
    Some(folder.join("punctual").join(name))
}
