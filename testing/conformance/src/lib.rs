//! Conformance suites: the behaviour that every storage and every transport must have.
//!
//! A behaviour is one public async function that takes a fixture, and its name is a sentence, such as
//! [`storage::claim::no_message_is_claimed_by_two_owners`]. It uses only the public contracts, so it applies
//! to all back-ends. A back-end runs all of them from a `tests/conformance.rs` of about ten lines, without the
//! standard harness:
//!
//! ```toml
//! [[test]]
//! name = "conformance"
//! harness = false
//!
//! [dev-dependencies]
//! async-trait.workspace = true
//! punctual-conformance.workspace = true
//! ```
//!
//! A storage without a server returns an empty environment for each case:
//!
//! ```no_run
//! use std::process::ExitCode;
//! use std::sync::Arc;
//!
//! use punctual::{MemoryStorage, Result};
//! use punctual_conformance::storage::{self, Backend, Node, Environment};
//!
//! struct Memory(Arc<MemoryStorage>);
//!
//! #[async_trait::async_trait]
//! impl Environment for Memory {
//!     async fn open(&self) -> Result<Node> {
//!         Ok(Node::new(Arc::clone(&self.0)))
//!     }
//! }
//!
//! fn main() -> ExitCode {
//!     let backend = Backend::local(|clock| async move {
//!         Ok(Memory(Arc::new(MemoryStorage::new(Arc::new(clock)))))
//!     });
//!     storage::run("memory", backend.uses_test_clock().notifies_between_nodes())
//! }
//! ```
//!
//! A storage with a server names the variable that contains the server's address. Without the variable every
//! case is *ignored*; when `PUNCTUAL_REQUIRE` names the back-end, every case *fails*. The environment of a
//! database opens connections, closes them, and removes the data (the types below stand for yours):
//!
//! ```no_run
//! # use std::process::ExitCode;
//! # use std::sync::Arc;
//! # use punctual::{MemoryStorage, Result};
//! # use punctual_conformance::storage::{self, Backend, Node, Environment};
//! # struct Postgres;
//! # impl Postgres {
//! #     async fn create_schema(_: &str) -> Result<String> { Ok(String::new()) }
//! #     async fn drop_schema(_: &str, _: &str) -> Result<()> { Ok(()) }
//! #     async fn connect(_: &str, _: &str) -> Result<Arc<MemoryStorage>> { Ok(Arc::default()) }
//! # }
//! struct Schema {
//!     address: String,
//!     name: String,
//! }
//!
//! #[async_trait::async_trait]
//! impl Environment for Schema {
//!     /// Another node on the same data, with a pool of its own.
//!     async fn open(&self) -> Result<Node> {
//!         Ok(Node::new(Postgres::connect(&self.address, &self.name).await?))
//!     }
//!
//!     /// Called once after each case, also after one that failed.
//!     async fn remove(&self) -> Result<()> {
//!         Postgres::drop_schema(&self.address, &self.name).await
//!     }
//! }
//!
//! fn main() -> ExitCode {
//!     let backend = Backend::at("PUNCTUAL_POSTGRES", |address, _clock| async move {
//!         let name = Postgres::create_schema(&address).await?;
//!         Ok(Schema { address, name })
//!     });
//!     storage::run("postgres", backend.notifies_between_nodes())
//! }
//! ```
//!
//! A transport does the same with [`transport::Backend`] and [`transport::Environment`]: it opens more nodes
//! with separate connections on topics that no other case uses. Where possible it also publishes a foreign
//! message, reads dead letters, restarts the broker and breaks connections. What is not possible is declared
//! with its reason, and the cases that need it are ignored:
//!
//! ```no_run
//! use std::process::ExitCode;
//! use std::sync::Arc;
//!
//! use punctual::{MemoryStorage, Result, Transport};
//! use punctual_conformance::transport::{self, Backend, Need, Environment, Stores};
//!
//! struct Memory(Arc<MemoryStorage>);
//!
//! #[async_trait::async_trait]
//! impl Environment for Memory {
//!     async fn open(&self) -> Result<Arc<dyn Transport>> {
//!         Ok(transport::over(self.0.clone()))
//!     }
//!
//!     async fn stores(&self) -> Result<Option<Stores>> {
//!         Ok(Some((self.0.clone(), self.0.clone())))
//!     }
//! }
//!
//! fn main() -> ExitCode {
//!     let backend = Backend::local(|| async { Ok(Memory(Arc::default())) })
//!         .cannot(Need::ForeignMessages, "only Punctual writes to a storage")
//!         .cannot(Need::Restart, "memory ends with its process")
//!         .cannot(Need::Cut, "memory has no connection")
//!         .cannot(Need::SlowDown, "memory has no network");
//!     transport::run("memory", backend)
//! }
//! ```
//!
//! With cargo-nextest each case is a named test in a separate process; `cargo test` runs them in one process.
//! The name of an environment must therefore be unique: derive it from the process id and a counter, or from
//! a new folder.

// This is test code in a library: a failed set-up fails the case by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used)]

// The guide is compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/write-a-storage.md")]
mod guide_write_a_storage {}

pub mod backend_tests;
mod case;
mod harness;
mod message;
pub mod storage;
pub mod transport;
