//! One test binary: the data that exporters in memory receive.
#![allow(clippy::unwrap_used)] // tests, whose helpers clippy does not know as such

mod exported_spans;
mod meters;
mod trace_propagation;
mod tracing_spans;
