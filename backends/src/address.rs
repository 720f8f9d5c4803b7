//! Address of a storage: the only place where connection strings are parsed.

use std::path::PathBuf;
use std::time::Duration;

use punctual::schedule::parse_duration;
use punctual::{Error, Result};

/// Forms of an address, for errors and help.
pub const FORMS: &str = "memory:, sqlite:path/to/file.db or postgres://user@host/database";

/// Location of a storage.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Address {
    /// In the memory of this process.
    Memory,
    /// In one file.
    Sqlite(SqliteAddress),
    /// In a PostgreSQL database.
    Postgres(PostgresAddress),
}

/// Path of a SQLite file and the options to open it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqliteAddress {
    /// Path of the file.
    pub path: PathBuf,
    /// `durability=normal`: faster, and a loss of power may take the last commits.
    pub normal: bool,
    /// `busy_timeout=10s`: longest wait for another process that has the file locked.
    pub busy_timeout: Option<Duration>,
}

/// Connection string of a database and our options.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresAddress {
    /// The address without our options; may contain a password.
    pub url: String,
    /// `schema=name`: schema of our tables.
    pub schema: Option<String>,
    /// `pool_size=8`: largest number of connections.
    pub pool_size: Option<usize>,
}

impl Address {
    /// Parses an address.
    pub fn parse(text: &str) -> Result<Self> {
        let text = text.trim();
        let Some((scheme, rest)) = text.split_once(':') else {
            return Err(match text {
                "memory" => return Ok(Self::Memory),
                "" => Error::invalid(format!("the address of the storage is empty; give {FORMS}")),
                _ => Error::invalid(format!(
                    "the address {text:?} has no scheme; for a file write \"sqlite:{text}\", otherwise give {FORMS}"
                )),
            });
        };
        match scheme.to_ascii_lowercase().as_str() {
            "memory" if rest.is_empty() => Ok(Self::Memory),
            "memory" => Err(Error::invalid(format!(
                "the address {text:?} has something after \"memory:\"; there is one memory, write just that"
            ))),
            "sqlite" => sqlite(rest).map(Self::Sqlite),
            "postgres" | "postgresql" => postgres(text).map(Self::Postgres),
            // The rest may hold a password and is not repeated.
            other => Err(Error::invalid(format!(
                "the scheme {other:?} of the address is unknown; give {FORMS}"
            ))),
        }
    }

    /// Returns the problem of an address of another machine without a TLS setting.
    pub fn tls_warning(&self) -> Option<String> {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(address) => {
                punctual_postgres::PostgresStorage::builder(&address.url).tls_warning()
            }
            _ => None,
        }
    }

    /// The kind of storage, in one word.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Sqlite(_) => "sqlite",
            Self::Postgres(_) => "postgres",
        }
    }
}

/// Without a password.
impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Memory => f.write_str("memory:"),
            Self::Sqlite(address) => write!(f, "sqlite:{}", address.path.display()),
            Self::Postgres(_) => f.write_str("postgres://..."),
        }
    }
}

fn sqlite(rest: &str) -> Result<SqliteAddress> {
    let (path, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let path = path.strip_prefix("//").unwrap_or(path);
    if path.is_empty() {
        return Err(Error::invalid(
            "the address \"sqlite:\" names no file; write one such as sqlite:punctual.db",
        ));
    }
    if path == ":memory:" {
        return Err(Error::invalid(
            "a file named \":memory:\" would be forgotten by the next connection; write \"memory:\" for a storage in memory",
        ));
    }
    let mut address =
        SqliteAddress { path: PathBuf::from(path), normal: false, busy_timeout: None };
    for (name, value) in pairs(parameters) {
        match (name, value) {
            ("durability", "full") => address.normal = false,
            ("durability", "normal") => address.normal = true,
            ("durability", other) => {
                return Err(Error::invalid(format!(
                    "durability={other} is unknown; write full or normal"
                )));
            }
            ("busy_timeout", length) => {
                let length = parse_duration(length).map_err(|error| {
                    Error::invalid(format!("busy_timeout cannot be read: {error}"))
                })?;
                address.busy_timeout = Some(length);
            }
            (other, _) => {
                return Err(unknown("sqlite", other, "durability and busy_timeout"));
            }
        }
    }
    Ok(address)
}

/// Removes our parameters from the address; the driver parses the rest.
fn postgres(text: &str) -> Result<PostgresAddress> {
    let (base, parameters) = text.split_once('?').unwrap_or((text, ""));
    if !base.contains("://") {
        return Err(Error::invalid(
            "an address of PostgreSQL looks like postgres://user:password@host:5432/database",
        ));
    }
    let (mut schema, mut pool_size, mut others) = (None, None, Vec::new());
    for (name, value) in pairs(parameters) {
        match name {
            "schema" => schema = Some(value.to_owned()),
            "pool_size" => {
                let count = value.parse().ok().filter(|count| *count > 0).ok_or_else(|| {
                    Error::invalid(format!(
                        "pool_size={value} is no number of connections; write one such as 8"
                    ))
                })?;
                pool_size = Some(count);
            }
            _ => others.push(format!("{name}={value}")),
        }
    }
    let url =
        if others.is_empty() { base.to_owned() } else { format!("{base}?{}", others.join("&")) };
    Ok(PostgresAddress { url, schema, pool_size })
}

fn pairs(parameters: &str) -> impl Iterator<Item = (&str, &str)> {
    let parts = parameters.split('&').filter(|part| !part.is_empty());
    parts.map(|part| part.split_once('=').unwrap_or((part, "")))
}

fn unknown(scheme: &str, name: &str, known: &str) -> Error {
    Error::invalid(format!("the {scheme} address has the parameter {name:?}; known are {known}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        Address::parse(text).unwrap_err().to_string()
    }

    fn file(text: &str) -> SqliteAddress {
        match Address::parse(text).unwrap() {
            Address::Sqlite(address) => address,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_form_is_read() {
        assert_eq!(Address::parse("memory:").unwrap(), Address::Memory);
        assert_eq!(Address::parse(" memory ").unwrap(), Address::Memory);
        assert_eq!(file("sqlite:a/b.db").path, PathBuf::from("a/b.db"));
        assert_eq!(file("sqlite:///var/lib/b.db").path, PathBuf::from("/var/lib/b.db"));
        let quick = file("SQLite:b.db?durability=normal&busy_timeout=5s");
        assert!(quick.normal);
        assert_eq!(quick.busy_timeout, Some(Duration::from_secs(5)));
        let text = "postgresql://ada:secret@db:5433/shop?sslmode=require&schema=jobs&pool_size=4";
        let Address::Postgres(address) = Address::parse(text).unwrap() else { panic!() };
        assert_eq!(address.url, "postgresql://ada:secret@db:5433/shop?sslmode=require");
        assert_eq!((address.schema.as_deref(), address.pool_size), (Some("jobs"), Some(4)));
    }

    #[test]
    fn invalid_settings_are_named_with_the_way_out() {
        for (text, words) in [
            ("", "is empty"),
            ("data.db", "write \"sqlite:data.db\""),
            ("redis://localhost", "\"redis\""),
            ("memory:x", "write just that"),
            ("sqlite:", "names no file"),
            ("sqlite::memory:", "write \"memory:\""),
            ("sqlite:a.db?durability=most", "write full or normal"),
            ("sqlite:a.db?busy_timeout=5", "has no unit"),
            ("sqlite:a.db?cache=shared", "known are durability and busy_timeout"),
            ("postgres:localhost", "postgres://user:password@host:5432/database"),
            ("postgres://db/shop?pool_size=none", "pool_size=none"),
        ] {
            let error = refused(text);
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        assert!(!refused("mysql://ada:secret@db/shop").contains("secret"));
        let address = Address::parse("postgres://ada:secret@db/shop").unwrap();
        assert!(!format!("{address:?}").contains("secret"));
    }
}
