//! One test binary for everything that needs more than one module.

mod harness;
mod walk;
