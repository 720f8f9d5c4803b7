//! Where logins are remembered: one file in the person's configuration folder that nobody else can read.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::desk::variable;
use crate::failure::{Code, Failure};

/// The file of logins.
const FILE: &str = "login.json";

/// A login at a server.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Account {
    /// The token. Never printed.
    pub(crate) token: String,
    /// Its id, to revoke it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
}

/// Every login.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Accounts {
    /// The server that is asked when nobody names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) current: Option<String>,
    /// By the address of the server.
    #[serde(default)]
    pub(crate) servers: BTreeMap<String, Account>,
}

/// One address, one spelling.
pub(crate) fn spelled(server: &str) -> String {
    server.trim().trim_end_matches('/').to_owned()
}

/// The folder for things of this program.
fn folder() -> Option<PathBuf> {
    let set = |name: &str| variable(name).map(PathBuf::from);
    let base = if cfg!(windows) {
        set("APPDATA")
    } else {
        set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")))
    };
    base.filter(|base| base.is_absolute()).map(|base| base.join("punctual"))
}

impl Accounts {
    /// What is remembered; nothing when nothing is.
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
            Failure::new(Code::Failed, format!("{} cannot be understood", path.display()))
                .hint("delete it and log in again")
                .into()
        })
    }

    /// Whether nobody else can read it; also when there is none.
    pub(crate) fn private() -> Result<bool> {
        let Some(path) = folder().map(|folder| folder.join(FILE)) else { return Ok(true) };
        match std::fs::metadata(&path) {
            #[cfg(unix)]
            Ok(facts) => {
                use std::os::unix::fs::PermissionsExt;
                let others = facts.permissions().mode() & 0o077;
                Ok(others == 0)
            }
            #[cfg(not(unix))]
            Ok(_) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// Remembers it all, and answers where.
    pub(crate) fn save(&self) -> Result<PathBuf> {
        let folder = folder().ok_or_else(|| {
            Failure::new(Code::Failed, "there is no folder to remember the login in")
                .hint("set HOME or XDG_CONFIG_HOME, or give the token in PUNCTUAL_TOKEN")
        })?;
        self.write(&folder)
    }

    fn write(&self, folder: &Path) -> Result<PathBuf> {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let path = folder.join(FILE);
        // Made with mode 0600 and moved into place: never readable by others, never half written.
        let mut file = tempfile::NamedTempFile::new_in(folder)
            .with_context(|| format!("cannot write in {}", folder.display()))?;
        file.write_all(serde_json::to_string_pretty(self)?.as_bytes())?;
        file.persist(&path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    /// The token for a server.
    pub(crate) fn token(&self, server: &str) -> Option<String> {
        self.servers.get(&spelled(server)).map(|account| account.token.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_remembered_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("punctual");
        assert_eq!(Accounts::read(&inner).unwrap().current, None);
        let mut accounts = Accounts { current: Some("http://a".into()), ..Accounts::default() };
        let account = Account { token: "pct_1_x".into(), id: Some("1".into()) };
        accounts.servers.insert(spelled("http://a/"), account);
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
        assert!(error.to_string().contains("cannot be understood"), "{error}");
    }
}
