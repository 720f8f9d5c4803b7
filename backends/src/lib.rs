//! Opens a storage by its address, for programs that are configured with one: `memory:`,
//! `sqlite:path/to/file.db` or `postgres://user@host/database`.
//!
//! Transports are opened the same way, by [`open_transport`]: a storage is one too.
//!
//! An application with a fixed storage uses that storage's crate directly. This crate brings SQLite and PostgreSQL, and
//! each broker whose feature is on: `kafka`, `mqtt`, `nats`, `rabbitmq`, `redis`, `servicebus`, `sqs`, or `brokers` for
//! all of them. An address that needs a feature which is off is refused with the name of that feature.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> punctual::Result<()> {
//! let opened = punctual_backends::open("memory:").await?;
//! let punctual = punctual::Punctual::builder().stores(opened.storage, opened.inspect).build()?;
//! # Ok(()) }
//! ```

// The guide is compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/storages.md")]
mod guide_storages {}

mod address;
mod opened_storage;
mod storage_check;
mod transport;

pub use address::{Address, FORMS, PostgresAddress, SqliteAddress};
pub use opened_storage::{OpenedStorage, StorageCheckResult, open, open_address};
pub use transport::{
    OpenedTransport, StorageNeed, check_transport, open_transport, storage_need, transport_forms,
};
