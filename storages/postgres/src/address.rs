//! Address of the database: the usual connection string. The TLS parameters that the driver does not know are
//! taken out first. No output of this module contains the password.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use punctual::{Error, Result};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::tls::Trust;

/// Time limit of one connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Keep-alive idle time of the driver unless set in the address.
const DRIVERS_IDLE: Duration = Duration::from_hours(2);

/// Parsed connection string.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) config: Config,
    pub(crate) trust: Trust,
    /// Whether the address has no `sslmode` and leads to another machine.
    pub(crate) is_unprotected: bool,
}

impl Address {
    /// Parses `postgres://user:password@host:port/database?sslmode=require` and the form with `host=...
    /// user=...`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let (rest, taken) = split_parameters(text.trim());
        let (mode, trust) = tls_of(&taken)?;
        let mut config: Config = rest.parse().map_err(|error: tokio_postgres::Error| {
            let why = std::error::Error::source(&error).map(ToString::to_string);
            Error::invalid(format!(
                "the address of PostgreSQL cannot be read: {}; it looks like postgres://user:password@host:5432/database",
                why.unwrap_or_else(|| error.to_string())
            ))
        })?;
        if config.get_hosts().is_empty() {
            return Err(Error::invalid(
                "the address of PostgreSQL names no host; it looks like postgres://user:password@host:5432/database",
            ));
        }
        config.ssl_mode(mode);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        set_keepalives(&mut config);
        let has_no_sslmode = !taken.iter().any(|(name, _)| name == "sslmode");
        let is_unprotected = has_no_sslmode && !config.get_hosts().iter().all(is_local);
        Ok(Self { config, trust, is_unprotected })
    }

    /// Returns a warning for an address that leads to another machine and has no `sslmode`.
    pub(crate) fn warning(&self) -> Option<String> {
        self.is_unprotected.then(|| {
            format!(
                "the address of PostgreSQL at {} has no sslmode: an attacker on the network path can read all data or impersonate the server; add sslmode=verify-full (with sslrootcert=FILE for an authority of your own), or sslmode=disable where the network is trusted",
                self.place()
            )
        })
    }

    /// Formats host, port and database for logs and errors.
    pub(crate) fn place(&self) -> String {
        let host = match self.config.get_hosts().first() {
            Some(Host::Tcp(name)) => name.clone(),
            Some(Host::Unix(path)) => path.display().to_string(),
            None => "nowhere".to_owned(),
        };
        let port = self.config.get_ports().first().copied().unwrap_or(5432);
        let database = self.config.get_dbname().or(self.config.get_user()).unwrap_or_default();
        format!("{host}:{port}/{database}")
    }
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Address").field(&self.place()).finish()
    }
}

/// Returns whether a host is this machine.
fn is_local(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            let name = name.trim_matches(['[', ']']);
            name.eq_ignore_ascii_case("localhost")
                || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        Host::Unix(_) => true,
    }
}

/// Sets TCP keep-alive so that a server that is gone without closing the connection is noticed within a minute,
/// not after the driver's two hours: otherwise the listener would wait for ever.
fn set_keepalives(config: &mut Config) {
    if config.get_keepalives_idle() == DRIVERS_IDLE {
        config.keepalives_idle(Duration::from_secs(30));
    }
    if config.get_keepalives_interval().is_none() {
        config.keepalives_interval(Duration::from_secs(10));
    }
    if config.get_keepalives_retries().is_none() {
        config.keepalives_retries(3);
    }
}

/// Splits off the parameters that are parsed here; returns the text without them, and the parameters.
fn split_parameters(text: &str) -> (String, Vec<(String, String)>) {
    let is_ours = |name: &str| matches!(name, "sslmode" | "sslrootcert");
    let mut taken = Vec::new();
    let mut keep = |part: &str, parts: &mut Vec<String>| match part.split_once('=') {
        Some((name, value)) if is_ours(name.trim()) => {
            taken.push((name.trim().to_owned(), value.trim().trim_matches('\'').to_owned()));
        }
        _ => parts.push(part.to_owned()),
    };
    let mut parts = Vec::new();
    let rest = if text.contains("://") {
        match text.split_once('?') {
            None => text.to_owned(),
            Some((start, query)) => {
                query.split('&').for_each(|part| keep(part, &mut parts));
                if parts.is_empty() {
                    start.to_owned()
                } else {
                    format!("{start}?{}", parts.join("&"))
                }
            }
        }
    } else {
        text.split_whitespace().for_each(|part| keep(part, &mut parts));
        parts.join(" ")
    };
    (rest, taken)
}

fn tls_of(taken: &[(String, String)]) -> Result<(SslMode, Trust)> {
    let value = |name: &str| {
        taken.iter().rev().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    };
    let file = value("sslrootcert").filter(|value| *value != "system");
    let roots = file.map_or(Trust::WebRoots, |path| Trust::File(PathBuf::from(path)));
    match value("sslmode").unwrap_or("prefer") {
        "disable" => Ok((SslMode::Disable, Trust::AnyCertificate)),
        "allow" | "prefer" => Ok((SslMode::Prefer, Trust::AnyCertificate)),
        // `require` with a file of authorities verifies the certificate, as libpq does.
        "require" if file.is_some() => Ok((SslMode::Require, roots)),
        "require" => Ok((SslMode::Require, Trust::AnyCertificate)),
        "verify-ca" | "verify-full" => Ok((SslMode::Require, roots)),
        other => Err(Error::invalid(format!(
            "sslmode {other:?} is unknown; use disable, prefer, require or verify-full"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_parameters_are_understood_in_both_forms() {
        for text in [
            "postgres://ada:secret@db.example:6432/work?sslmode=verify-full&sslrootcert=/ca.pem&connect_timeout=3",
            "host=db.example port=6432 user=ada password=secret dbname=work sslmode=verify-full sslrootcert=/ca.pem",
        ] {
            let address = Address::parse(text).unwrap();
            assert_eq!(address.config.get_ssl_mode(), SslMode::Require);
            assert_eq!(address.trust, Trust::File(PathBuf::from("/ca.pem")));
            assert_eq!(address.place(), "db.example:6432/work");
            assert!(!format!("{address:?}").contains("secret"));
        }
        assert_eq!(Address::parse("postgres://h/d").unwrap().trust, Trust::AnyCertificate);
    }

    // Finding F29 of the security review.
    #[test]
    fn an_address_of_another_machine_without_sslmode_is_warned_about() {
        for (text, warns) in [
            ("postgres://ada:secret@db.example/work", true),
            ("host=10.0.0.5 user=ada password=secret", true),
            ("host=localhost,db.example user=ada", true),
            ("postgres://ada@localhost/work", false),
            ("postgres://ada@127.0.0.1:5433/work", false),
            ("postgres://ada@[::1]/work", false),
            ("host=/var/run/postgresql user=ada", false),
            ("postgres://ada@db.example/work?sslmode=disable", false),
            ("postgres://ada@db.example/work?sslmode=verify-full", false),
        ] {
            let warning = Address::parse(text).unwrap().warning();
            assert_eq!(warning.is_some(), warns, "{text}");
            assert!(!warning.unwrap_or_default().contains("secret"));
        }
    }

    #[test]
    fn a_wrong_address_is_refused_without_its_password() {
        for text in [
            "postgres://ada:secret@h:port/d",
            "nonsense secret",
            "postgres://u:secret@h/d?sslmode=maybe",
        ] {
            let error = Address::parse(text).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
