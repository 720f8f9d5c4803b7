//! Opens a storage by its address, for programs that are told where to work: `memory:`,
//! `sqlite:path/to/file.db` or `postgres://user@host/database`.
//!
//! Transports are opened the same way, by [`open_transport`]: a storage is one too.
//!
//! An application that knows its storage uses that storage's crate directly; this one brings them all.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> punctual::Result<()> {
//! let opened = punctual_connect::open("memory:").await?;
//! let punctual = punctual::Punctual::builder().stores(opened.storage, opened.inspect).build()?;
//! # Ok(()) }
//! ```

// The guide is compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/storages.md")]
mod guide_storages {}

mod address;
mod checked;
mod opened;
mod transport;

pub use address::{Address, FORMS, PostgresAddress, SqliteAddress};
pub use opened::{Checkup, Opened, open, open_address};
pub use transport::{OpenedTransport, open_transport, transport_forms};
