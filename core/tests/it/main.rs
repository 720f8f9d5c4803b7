//! One test binary for everything that needs more than one module.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a set-up that fails is a test that fails

mod acting;
mod attempts;
mod backfilling;
mod bad_input;
mod broker;
mod chains;
mod clocks;
mod configuration;
mod correlation;
mod defaults;
mod deliveries;
mod editing;
mod errors;
mod faulty;
mod generated;
mod handlers;
mod harness;
mod health;
mod idle;
mod keeping;
mod leases;
mod lifecycle;
mod limiting;
mod middleware;
mod misfires;
mod moving;
mod one_time;
mod operators;
mod overlap;
mod reconciliation;
mod scheduling;
mod shutdown;
mod simulation;
mod status;
mod steering;
mod storage;
mod sweeping;
mod telemetry;
mod timeouts;
mod transactions;
mod transfers;
mod transport;
mod transports;
mod walk;
