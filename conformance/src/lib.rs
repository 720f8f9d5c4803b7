//! What every back-end must do, as one suite that each of them runs.
//!
//! A behaviour is one public async function that takes a fixture and reads like a sentence with its
//! module, such as [`storage::claim::no_message_is_given_to_two_owners`]. It uses the contracts only,
//! so it holds for all back-ends or it is wrong. A back-end runs all of them from a
//! `tests/conformance.rs` of about ten lines, without the standard harness:
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
//! A storage that is always there gives a fresh place for each case:
//!
//! ```no_run
//! use std::process::ExitCode;
//! use std::sync::Arc;
//!
//! use punctual::{MemoryStorage, Result};
//! use punctual_conformance::storage::{self, Backend, Node, Place};
//!
//! struct Memory(Arc<MemoryStorage>);
//!
//! #[async_trait::async_trait]
//! impl Place for Memory {
//!     async fn open(&self) -> Result<Node> {
//!         Ok(Node::new(Arc::clone(&self.0)))
//!     }
//! }
//!
//! fn main() -> ExitCode {
//!     let backend = Backend::here(|clock| async move {
//!         Ok(Memory(Arc::new(MemoryStorage::new(Arc::new(clock)))))
//!     });
//!     storage::run("memory", backend.follows_the_clock().rings_between_nodes())
//! }
//! ```
//!
//! One with a server says in which variable its address is. Without the variable every case is
//! *ignored*; when `PUNCTUAL_REQUIRE` names the back-end, every case *fails*. What a place does for a
//! database is open connections, close them, and take the data away (here with types of its own in
//! place of yours):
//!
//! ```no_run
//! # use std::process::ExitCode;
//! # use std::sync::Arc;
//! # use punctual::{MemoryStorage, Result};
//! # use punctual_conformance::storage::{self, Backend, Node, Place};
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
//! impl Place for Schema {
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
//!     storage::run("postgres", backend.rings_between_nodes())
//! }
//! ```
//!
//! A transport does the same with [`transport::Backend`] and [`transport::Place`]: another node with
//! connections of its own on topics that nobody else uses, and, where that is possible, a stranger's
//! message, a look at the dead letters, a restart and a broken connection. What is not possible is said
//! with its reason, and the cases that need it are ignored:
//!
//! ```no_run
//! use std::process::ExitCode;
//! use std::sync::Arc;
//!
//! use punctual::{MemoryStorage, Result, Transport};
//! use punctual_conformance::transport::{self, Backend, Need, Place, Stores};
//!
//! struct Memory(Arc<MemoryStorage>);
//!
//! #[async_trait::async_trait]
//! impl Place for Memory {
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
//!     let backend = Backend::here(|| async { Ok(Memory(Arc::default())) })
//!         .cannot(Need::Put, "nobody but Punctual writes into a storage's lines")
//!         .cannot(Need::Restart, "memory ends with its process")
//!         .cannot(Need::Cut, "memory has no connection")
//!         .cannot(Need::SlowDown, "memory has no network");
//!     transport::run("memory", backend)
//! }
//! ```
//!
//! With cargo-nextest each case is a test by name in a process of its own; `cargo test` runs them in
//! one. A place must therefore be new in every process: derive its name from the process id and a
//! counter, or from a folder that did not exist.

// This is test code in a library: a set-up that fails is a case that fails, by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod case;
mod harness;
mod message;
pub mod own;
pub mod storage;
pub mod transport;
