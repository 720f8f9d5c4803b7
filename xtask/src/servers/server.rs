//! Server: how one of each product is started, and the table of products.
//!
//! A new product is one file beside this one and one entry in `SERVERS`. Nothing else names products.

use std::process::Command;

use anyhow::{Context, Result};

use super::{Mqtt, Nats, Place, Postgres, Rabbitmq, Redis, Sqs};

/// Every product the tools can start.
pub const SERVERS: &[&dyn Server] = &[&Postgres, &Redis, &Nats, &Rabbitmq, &Mqtt, &Sqs];

/// A product with a server that can be started.
pub trait Server: Sync {
    /// Returns its name, which is also that of its back-end: `postgres`.
    fn name(&self) -> &'static str;

    /// Returns the folder whose tests need it, such as `storages/postgres`.
    fn folder(&self) -> &'static str;

    /// Returns the variable that contains its address for tests.
    fn variable(&self) -> &'static str;

    /// Returns whether its programs are installed.
    fn is_installed(&self) -> bool;

    /// Returns the distribution's packages that contain it; may call the package manager.
    fn packages(&self) -> Result<Vec<String>>;

    /// Installs parts that its packages do not contain; called after they were installed.
    fn complete(&self) -> Result<()> {
        Ok(())
    }

    /// Fills the folder if it is empty and returns the command that serves in the foreground.
    fn prepare(&self, place: &Place) -> Result<Command>;

    /// Returns whether the server responds.
    fn is_ready(&self, place: &Place) -> bool;

    /// Returns the address for the tests.
    fn address(&self, place: &Place) -> String;

    /// Returns the signal that ends it soon and gracefully, without `SIG`.
    fn stop_signal(&self) -> &'static str {
        "TERM"
    }
}

/// Returns the product of this name.
pub fn named(name: &str) -> Result<&'static dyn Server> {
    let found = SERVERS.iter().find(|server| server.name() == name);
    found.copied().with_context(|| {
        let known: Vec<&str> = SERVERS.iter().map(|server| server.name()).collect();
        format!("no server named `{name}`: the tools know {}", known.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_folders_and_variables_belong_together() {
        for server in SERVERS {
            assert!(server.folder().ends_with(&format!("/{}", server.name())));
            assert!(server.variable().starts_with("PUNCTUAL_"));
            assert_eq!(named(server.name()).unwrap().name(), server.name());
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let error = named("oracle").err().unwrap().to_string();
        assert!(error.contains("`oracle`") && error.contains("postgres"), "{error}");
    }
}
