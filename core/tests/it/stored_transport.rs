//! Stored transport: what every transport must do, tested with a storage as transport, on a manual clock.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a set-up that fails is a test that fails

mod fixture;
mod late_storage;
mod publish;
mod receive;
