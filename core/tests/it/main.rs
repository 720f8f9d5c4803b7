//! One test binary for everything that needs more than one module.

mod generated;
mod harness;
mod walk;
