//! Database of a run: a SQLite file, or a private PostgreSQL that waits for the disk and can be crashed.

use std::path::Path;

use anyhow::Result;
use xtask::servers::{Durability, Postgres, Running};

/// Database of a run.
pub(super) enum Database {
    /// Address of a SQLite file.
    File(String),
    /// Running PostgreSQL server.
    Server(Running),
}

impl Database {
    pub(super) fn start(postgres: bool, folder: &Path) -> Result<Self> {
        if !postgres {
            return Ok(Self::File(format!("sqlite:{}", folder.join("keyed.db").display())));
        }
        let server = Running::start(&Postgres, Durability::Durable, &folder.join("postgres"))?;
        Ok(Self::Server(server))
    }

    pub(super) fn address(&self) -> String {
        match self {
            Self::File(address) => address.clone(),
            Self::Server(server) => server.address(),
        }
    }

    pub(super) fn crash(&mut self) -> Result<()> {
        match self {
            Self::File(_) => Ok(()),
            Self::Server(server) => server.crash(),
        }
    }

    pub(super) fn serve(&mut self) -> Result<()> {
        match self {
            Self::File(_) => Ok(()),
            Self::Server(server) => server.serve(),
        }
    }
}
