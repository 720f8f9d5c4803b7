//! Requirements of the tests beside the Rust toolchain, and their installation.
//!
//! An installed server is never changed. As root, the packages of the distribution are installed; for other users
//! the command is printed. Packages may start their service when they are installed: a policy prevents that, and an
//! existing policy is not changed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use xtask::servers::Server;

use crate::workspace::Workspace;

/// Script that Debian's `invoke-rc.d` calls before it starts a service.
const POLICY: &str = "/usr/sbin/policy-rc.d";
const POLICY_TEXT: &str = "#!/bin/sh\n# Put here by `cargo xtask` while it installs packages; may be removed.\nexit 101\n";

/// Requirement of building a back-end besides Rust: its folder, a file that exists when it is installed, and
/// the package that contains it.
const BUILDS: [(&str, &str, &str); 2] = [
    ("transports/kafka", "/usr/include/zlib.h", "zlib1g-dev"),
    ("transports/kafka", "/usr/bin/make", "make"),
];

/// Installs missing build requirements of the existing back-ends.
pub(crate) fn provide_builds(workspace: &Workspace) -> Result<()> {
    let is_missing = |folder: &str, file: &str| workspace.has(folder) && !Path::new(file).exists();
    let missing = BUILDS.iter().filter(|(folder, file, _)| is_missing(folder, file));
    let packages: Vec<String> = missing.map(|(_, _, package)| (*package).to_owned()).collect();
    provide_packages(&packages).with_context(|| {
        format!("building needs {}: install it with your system's packages", packages.join(", "))
    })
}

/// Installs packages of the distribution, when there are any to install.
pub(crate) fn provide_packages(packages: &[String]) -> Result<()> {
    if packages.is_empty() {
        return Ok(());
    }
    apt(&["update", "--quiet"]).and_then(|()| install(packages))
}

/// Installs missing servers. Prints to standard error only, because a shell reads the output of `servers up`.
pub(crate) fn provide(servers: &[&dyn Server]) -> Result<()> {
    let absent: Vec<&&dyn Server> =
        servers.iter().filter(|server| !server.is_installed()).collect();
    if absent.is_empty() {
        return Ok(());
    }
    install_servers(&absent).with_context(|| {
        let names: Vec<&str> = absent.iter().map(|server| server.name()).collect();
        let names = names.join(",");
        format!(
            "{names} is not installed and could not be: this works as root on Debian and its \
             relatives; install it yourself, name one that runs ({}), or leave it out with \
             `cargo xtask test --without {names}`",
            absent[0].variable()
        )
    })
}

fn install_servers(absent: &[&&dyn Server]) -> Result<()> {
    let _policy = Policy::set(Path::new(POLICY))?;
    apt(&["update", "--quiet"])?;
    let mut packages = Vec::new();
    for server in absent {
        packages.extend(server.packages()?);
    }
    install(&packages)?;
    absent.iter().try_for_each(|server| server.complete())?;
    match absent.iter().find(|server| !server.is_installed()) {
        Some(server) => bail!("{} is not there after installing", server.name()),
        None => Ok(()),
    }
}

fn install(packages: &[String]) -> Result<()> {
    eprintln!("    installing {}", packages.join(", "));
    let mut line = vec!["install", "--yes", "--quiet", "--no-install-recommends"];
    line.extend(packages.iter().map(String::as_str));
    apt(&line)
}

fn apt(arguments: &[&str]) -> Result<()> {
    let output = Command::new("apt-get")
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .output()
        .context("start apt-get")?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("`apt-get {}` ended with {}:\n{errors}", arguments.join(" "), output.status);
    }
    Ok(())
}

/// A policy against starting services, removed on drop.
struct Policy {
    file: Option<PathBuf>,
}

impl Policy {
    fn set(file: &Path) -> Result<Self> {
        // One of ours is what an interrupted run left behind: it is taken over and removed after.
        if fs::read_to_string(file).is_ok_and(|text| text != POLICY_TEXT) {
            return Ok(Self { file: None });
        }
        fs::write(file, POLICY_TEXT)
            .and_then(|()| fs::set_permissions(file, fs::Permissions::from_mode(0o755)))
            .with_context(|| format!("write {}; installing packages needs root", file.display()))?;
        Ok(Self { file: Some(file.to_owned()) })
    }
}

impl Drop for Policy {
    fn drop(&mut self) {
        if let Some(file) = &self.file
            && let Err(error) = fs::remove_file(file)
        {
            eprintln!("could not remove {}: {error}", file.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("punctual-policy-{name}-{}", std::process::id()))
    }

    #[test]
    fn a_policy_is_set_and_removed() {
        let file = file("new");
        let policy = Policy::set(&file).unwrap();
        assert!(fs::read_to_string(&file).unwrap().ends_with("exit 101\n"));
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o755);
        drop(policy);
        assert!(!file.exists());
    }

    #[test]
    fn a_policy_of_others_stays_as_it_is() {
        let file = file("other");
        fs::write(&file, "#!/bin/sh\nexit 104\n").unwrap();
        drop(Policy::set(&file).unwrap());
        assert_eq!(fs::read_to_string(&file).unwrap(), "#!/bin/sh\nexit 104\n");
        fs::remove_file(&file).unwrap();
    }

    #[test]
    fn a_policy_left_behind_by_us_is_removed() {
        let file = file("left");
        fs::write(&file, POLICY_TEXT).unwrap();
        drop(Policy::set(&file).unwrap());
        assert!(!file.exists());
    }
}
