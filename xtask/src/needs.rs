//! What the tests need beside the Rust toolchain, and putting it there.
//!
//! A need belongs to a folder and applies only while that folder exists; a program that is present is
//! never touched. Installing is done with the distribution's packages as root, otherwise the command
//! is printed for the person. The table is empty today: the core needs nothing but the toolchain.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::tally::Tally;
use crate::workspace::Workspace;

struct Need {
    /// The folder whose tests need it, such as `storages/postgres`.
    folder: &'static str,
    /// The program looked for in the search path.
    program: &'static str,
    /// The Debian package that brings it.
    package: &'static str,
}

const NEEDS: &[Need] = &[];

pub(crate) fn provide(workspace: &Workspace) -> Result<Tally> {
    let packages = missing(NEEDS, |folder| workspace.has(folder), in_search_path);
    if packages.is_empty() {
        println!("    nothing to install");
    } else {
        install(&packages)?;
    }
    Ok(Tally::default())
}

fn missing(
    needs: &[Need],
    exists: impl Fn(&str) -> bool,
    found: impl Fn(&str) -> bool,
) -> Vec<&'static str> {
    let mut packages: Vec<&str> = needs
        .iter()
        .filter(|need| exists(need.folder) && !found(need.program))
        .map(|need| need.package)
        .collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

fn install(packages: &[&str]) -> Result<()> {
    println!("    installing {}", packages.join(", "));
    let status = Command::new("apt-get")
        .args(["install", "--yes", "--no-install-recommends"])
        .args(packages)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .status()
        .context("start apt-get")?;
    if !status.success() {
        bail!("apt-get ended with {status}; as root, run: apt-get install {}", packages.join(" "));
    }
    Ok(())
}

fn in_search_path(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| is_file(&folder.join(program)))
}

fn is_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|facts| facts.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &[Need] = &[
        Need { folder: "transports/mqtt", program: "mosquitto", package: "mosquitto" },
        Need { folder: "transports/redis", program: "redis-server", package: "redis-server" },
    ];

    #[test]
    fn only_what_a_present_crate_needs_and_the_machine_lacks() {
        let none: [&str; 0] = [];
        assert_eq!(missing(SAMPLE, |_| false, |_| false), none);
        assert_eq!(missing(SAMPLE, |_| true, |_| true), none);
        let only_redis = |folder: &str| folder == "transports/redis";
        assert_eq!(missing(SAMPLE, only_redis, |_| false), ["redis-server"]);
    }

    #[test]
    fn the_search_path_is_searched() {
        assert!(in_search_path("cargo"));
        assert!(!in_search_path("no-program-has-this-name"));
    }
}
