//! What every transport must do, tried on a storage as transport. Time stands still unless a test
//! moves it.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a set-up that fails is a test that fails

mod fixture;
mod late;
mod publish;
mod receive;
