//! Logins: one file in the user's configuration folder, readable only by its owner.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::command_context::env_var;
use crate::error::{Code, CommandError};

/// Name of the file that stores the logins.
const FILE: &str = "login.json";

/// A login at a server.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Account {
    /// Secret of the token; never printed.
    pub(crate) token: String,
    /// Id of the token, with which it is revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
}

/// All stored logins.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Accounts {
    /// Server used when neither a flag nor a variable names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) current: Option<String>,
    /// Logins by server address.
    #[serde(default)]
    pub(crate) servers: BTreeMap<String, Account>,
}

/// Returns the address without surrounding blanks and trailing slashes, so that one server has one entry.
pub(crate) fn normalized(server: &str) -> String {
    server.trim().trim_end_matches('/').to_owned()
}

/// Returns the configuration folder of this program.
fn folder() -> Option<PathBuf> {
    let path = |name: &str| env_var(name).map(PathBuf::from);
    let base = if cfg!(windows) {
        path("APPDATA")
    } else {
        path("XDG_CONFIG_HOME").or_else(|| path("HOME").map(|home| home.join(".config")))
    };
    base.filter(|base| base.is_absolute()).map(|base| base.join("punctual"))
}

impl Accounts {
    /// Reads the stored logins; empty when there is no file.
    pub(crate) fn load() -> Result<Self> {
        folder().map_or_else(|| Ok(Self::default()), |folder| Self::read(&folder))
    }

    fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        serde_json::from_str(&text).map_err(|_| {
            CommandError::new(Code::Failed, format!("{} is not valid JSON", path.display()))
                .hint("delete it and log in again")
                .into()
        })
    }

    /// Returns whether only the owner can read the file; also true when there is no file.
    pub(crate) fn is_private() -> Result<bool> {
        let Some(path) = folder().map(|folder| folder.join(FILE)) else { return Ok(true) };
        match std::fs::metadata(&path) {
            #[cfg(unix)]
            Ok(metadata) => {
                use std::os::unix::fs::PermissionsExt;
                let others = metadata.permissions().mode() & 0o077;
                Ok(others == 0)
            }
            #[cfg(not(unix))]
            Ok(_) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// Writes the file and returns its path.
    pub(crate) fn save(&self) -> Result<PathBuf> {
        let folder = folder().ok_or_else(|| {
            CommandError::new(Code::Failed, "there is no folder to store the login in")
                .hint("set HOME or XDG_CONFIG_HOME, or pass the token in PUNCTUAL_TOKEN")
        })?;
        self.write(&folder)
    }

    fn write(&self, folder: &Path) -> Result<PathBuf> {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let path = folder.join(FILE);
        // Created with mode 0600 and renamed: never readable by other users, never half written.
        let mut file = tempfile::NamedTempFile::new_in(folder)
            .with_context(|| format!("cannot write in {}", folder.display()))?;
        file.write_all(serde_json::to_string_pretty(self)?.as_bytes())?;
        file.persist(&path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    /// Returns the token for a server.
    pub(crate) fn token(&self, server: &str) -> Option<String> {
        self.servers.get(&normalized(server)).map(|account| account.token.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_logins_is_readable_by_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("punctual");
        assert_eq!(Accounts::read(&inner).unwrap().current, None);
        let mut accounts = Accounts { current: Some("http://a".into()), ..Accounts::default() };
        let account = Account { token: "pct_1_x".into(), id: Some("1".into()) };
        accounts.servers.insert(normalized("http://a/"), account);
        let path = accounts.write(&inner).unwrap();
        assert_eq!(Accounts::read(&inner).unwrap().token("http://a/").as_deref(), Some("pct_1_x"));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        std::fs::write(&path, "{").unwrap();
        let error = Accounts::read(&inner).err().unwrap();
        assert!(error.to_string().contains("is not valid JSON"), "{error}");
    }
}
