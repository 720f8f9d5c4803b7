//! PostgreSQL: its programs, its package, and how a private one is started.
//!
//! It refuses to run as root, so root starts it as the package's user; other users start it as themselves. It
//! listens on the loopback address only, accepts every connection without a password, and contains test data only.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::{Durability, Place, Server};

/// The tested version, preferred where a distribution has several.
const PREFERRED: u32 = 15;
/// Folder of Debian's versions, outside the search path.
const DEBIAN: &str = "/usr/lib/postgresql";
/// The user the package creates, and the one superuser of the private database.
const USER: &str = "postgres";
/// Many test processes run in parallel, each with a small pool.
const CONNECTIONS_MAX: &str = "max_connections=300";

/// A private PostgreSQL.
pub struct Postgres;

impl Server for Postgres {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn folder(&self) -> &'static str {
        "storages/postgres"
    }

    fn variable(&self) -> &'static str {
        "PUNCTUAL_POSTGRES_URL"
    }

    fn is_installed(&self) -> bool {
        programs().is_some()
    }

    fn packages(&self) -> Result<Vec<String>> {
        let output = Command::new("apt-cache")
            .args(["search", "--names-only", "^postgresql-[0-9]+$"])
            .output()
            .context("ask apt-cache which PostgreSQL there is")?;
        let listed = String::from_utf8_lossy(&output.stdout);
        let names = listed.lines().filter_map(|line| line.split_whitespace().next());
        let versions = names.filter_map(|name| name.strip_prefix("postgresql-")?.parse().ok());
        match chosen(&versions.collect::<Vec<u32>>()) {
            Some(version) => Ok(vec![format!("postgresql-{version}")]),
            None => bail!("the distribution has no package named postgresql-NN"),
        }
    }

    fn prepare(&self, place: &Place) -> Result<Command> {
        let programs = programs().context("PostgreSQL is not installed")?;
        let identity = Identity::find()?;
        let data = place.folder.join("data");
        if !data.exists() {
            identity.own(&place.folder)?;
            create_database(&identity, &programs, &data)?;
        }
        let mut command = identity.command(&programs.join("postgres"));
        command.arg("-D").arg(&data).args(["-h", "127.0.0.1", "-p", &place.port.to_string()]);
        for setting in settings(place.durability) {
            command.args(["-c", setting]);
        }
        Ok(command)
    }

    fn is_ready(&self, place: &Place) -> bool {
        // Asking costs a process, so a closed port is noticed first.
        let address = (Ipv4Addr::LOCALHOST, place.port).into();
        if TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err() {
            return false;
        }
        let Some(programs) = programs() else { return false };
        Command::new(programs.join("pg_isready"))
            .args(["-q", "-t", "2", "-h", "127.0.0.1", "-U", USER, "-p", &place.port.to_string()])
            .status()
            .is_ok_and(|status| status.success())
    }

    fn address(&self, place: &Place) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/postgres", place.port)
    }

    /// Ends sessions immediately and shuts down in order; the default signal would wait for every session.
    fn stop_signal(&self) -> &'static str {
        "INT"
    }
}

fn settings(durability: Durability) -> Vec<&'static str> {
    let mut settings = vec![CONNECTIONS_MAX, "unix_socket_directories=", "logging_collector=off"];
    if durability == Durability::Relaxed {
        settings.extend(["fsync=off", "synchronous_commit=off", "full_page_writes=off"]);
    }
    settings
}

/// The user of the server process.
enum Identity {
    Oneself,
    /// As root: the package's user.
    Package {
        user: u32,
        group: u32,
    },
}

impl Identity {
    fn find() -> Result<Self> {
        if id(&["-u"])? != 0 {
            return Ok(Self::Oneself);
        }
        let explain = || format!("PostgreSQL does not run as root, and there is no user {USER}");
        let user = id(&["-u", USER]).with_context(explain)?;
        Ok(Self::Package { user, group: id(&["-g", USER]).with_context(explain)? })
    }

    fn own(&self, folder: &Path) -> Result<()> {
        match self {
            Self::Oneself => Ok(()),
            Self::Package { user, group } => chown(folder, Some(*user), Some(*group))
                .with_context(|| format!("give {} to {USER}", folder.display())),
        }
    }

    fn command(&self, program: &Path) -> Command {
        match self {
            Self::Oneself => Command::new(program),
            Self::Package { user, group } => {
                let mut command = Command::new("setpriv");
                command.arg(format!("--reuid={user}")).arg(format!("--regid={group}"));
                command.arg("--clear-groups").arg(program);
                command
            }
        }
    }
}

fn id(arguments: &[&str]) -> Result<u32> {
    let output = Command::new("id").args(arguments).output().context("start id")?;
    let number = String::from_utf8_lossy(&output.stdout).trim().parse();
    number.with_context(|| format!("`id {}` did not return a number", arguments.join(" ")))
}

fn create_database(identity: &Identity, programs: &Path, data: &Path) -> Result<()> {
    let output = identity
        .command(&programs.join("initdb"))
        .arg("-D")
        .arg(data)
        .args(["-A", "trust", "-U", USER, "-E", "UTF8", "--locale=C", "--no-sync"])
        .stdin(Stdio::null())
        .output()
        .context("start initdb")?;
    if !output.status.success() {
        bail!("initdb ended with {}:\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// Returns the folder of the programs: from the search path, otherwise Debian's.
fn programs() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let from_path = std::env::split_paths(&folders)
        .filter_map(|folder| fs::canonicalize(folder.join("postgres")).ok())
        .filter_map(|program| program.parent().map(Path::to_owned));
    let entries = fs::read_dir(DEBIAN).into_iter().flatten().flatten();
    let versions = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let of_debian = chosen(&versions.collect::<Vec<u32>>())
        .map(|version| Path::new(DEBIAN).join(version.to_string()).join("bin"));
    from_path.chain(of_debian).find(|folder| is_complete(folder))
}

fn is_complete(folder: &Path) -> bool {
    ["postgres", "initdb", "pg_isready"].iter().all(|program| folder.join(program).is_file())
}

fn chosen(versions: &[u32]) -> Option<u32> {
    if versions.contains(&PREFERRED) { Some(PREFERRED) } else { versions.iter().max().copied() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tried_version_is_preferred_and_the_newest_is_next() {
        assert_eq!(chosen(&[13, 15, 17]), Some(15));
        assert_eq!(chosen(&[9, 17]), Some(17));
        assert_eq!(chosen(&[]), None);
    }

    #[test]
    fn only_a_relaxed_one_forgets_the_disk() {
        assert!(settings(Durability::Relaxed).contains(&"fsync=off"));
        assert!(
            !settings(Durability::Durable)
                .iter()
                .any(|setting| setting.ends_with("=off") && *setting != "logging_collector=off")
        );
    }

    #[test]
    fn the_address_is_on_the_loopback_and_has_no_password() {
        let folder = PathBuf::from("/tmp/punctual-postgres-1-2");
        let place = Place { folder, port: 4711, durability: Durability::Relaxed };
        assert_eq!(Postgres.address(&place), "postgres://postgres@127.0.0.1:4711/postgres");
    }
}
