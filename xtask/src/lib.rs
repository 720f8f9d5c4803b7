//! Local servers for tests and benchmarks: the part of the tools that other crates use.
//!
//! The rest of the tools is the program in `main.rs`. Only tools and tests depend on this library,
//! never a crate that is shipped.

#![allow(clippy::print_stderr, reason = "a tool of the terminal talks to the terminal")]

pub mod servers;
