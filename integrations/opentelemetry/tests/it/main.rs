//! One test binary: what exporters in memory got to see.
#![allow(clippy::unwrap_used)] // tests, whose helpers clippy does not know as such

mod beside_tracing;
mod metering;
mod seen;
mod tracing_along;
