//! One test binary for everything that needs more than one module.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a set-up that fails is a test that fails

mod acting;
mod attempts;
mod bad_input;
mod blocking;
mod broker;
mod clocks;
mod correlation;
mod declared;
mod defaults;
mod deliveries;
mod extractors;
mod faulty;
mod first_contact;
mod generated;
mod handlers;
mod harness;
mod health;
mod idle;
mod keeping;
mod leases;
mod middleware;
mod misfires;
mod one_time;
mod operators;
mod overlap;
mod reconciliation;
mod reporting;
mod scheduling;
mod shutdown;
mod simulation;
mod states;
mod steering;
mod storage;
mod timeouts;
mod transactions;
mod transfers;
mod transport;
mod transports;
mod walk;
