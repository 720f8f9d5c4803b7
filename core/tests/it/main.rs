//! One test binary for everything that needs more than one module.

mod acting;
mod faulty;
mod generated;
mod harness;
mod leases;
mod misfires;
mod one_time;
mod operators;
mod overlap;
mod scheduling;
mod shutdown;
mod simulation;
mod timeouts;
mod walk;
