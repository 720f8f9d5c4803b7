//! The suite for transports: what [`punctual::Transport`] promises, and that a process behaves the same
//! in front of every one of them, whatever it can do by itself. One behaviour per function, one module
//! per subject.
//!
//! Brokers have a clock of their own, so everything here runs in real time: delays are short, and every
//! wait is for an event and has a bound.
//!
//! A case ends in one of four ways: passed; *refused as declared*, when the transport's
//! [`Capabilities`](punctual::transport::Capabilities) say that it does not do this and it refuses it,
//! or leaves it to the engine, as it should; ignored with a reason, when it cannot be tried here; or
//! failed. A broker that is not there is never passed.

mod backend;
#[macro_use]
mod case;
mod fixture;
mod matrix;
mod results;

// A behaviour's name is its sentence.
#[allow(missing_docs)]
pub mod dead;
#[allow(missing_docs)]
pub mod delay;
#[allow(missing_docs)]
pub mod faults;
#[allow(missing_docs)]
pub mod group;
#[allow(missing_docs)]
pub mod order;
#[allow(missing_docs)]
pub mod poison;
#[allow(missing_docs)]
pub mod publish;
#[allow(missing_docs)]
pub mod requeue;
#[allow(missing_docs)]
pub mod settle;
#[allow(missing_docs)]
pub mod shutdown;

use std::process::ExitCode;
use std::sync::Arc;

pub use self::backend::{Backend, Need, Place, Stores, over};
pub use self::fixture::{Fixture, Receiving, Worker};
pub use self::matrix::Matrix;
pub use self::results::{RESULTS, Recorded};

use self::case::{Case, try_case};
use self::results::Results;
use crate::harness::{self, Presence, Trying, caught};

/// How many cases run at once where one process runs them all: they wait far more than they work.
const AT_ONCE: usize = 8;

/// Tries every behaviour on a transport, as the command line asks: the whole of a `main`.
pub fn run(name: &str, backend: Backend) -> ExitCode {
    let missing = backend.make.as_ref().err().cloned();
    let (backend, results) = (Arc::new(backend), Results::of(name));
    results.listed();
    let cases = cases().map(|case| {
        let (name, lacks) = (case.name(), case.lacks(&backend));
        if let Some(reason) = &lacks {
            results.skipped(&name, reason);
        }
        let (backend, results, written) = (Arc::clone(&backend), results.clone(), name.clone());
        let run = Box::new(move || {
            let came = caught(|| try_case(&case, &backend, &results));
            results.came(&written, &came);
            came.map(|_| ())
        });
        Trying { name, lacks, run }
    });
    harness::run_at_once(AT_ONCE, name, &Presence::of(name, missing), cases.collect())
}

fn cases() -> impl Iterator<Item = Case> {
    let modules = [
        publish::CASES,
        settle::CASES,
        requeue::CASES,
        delay::CASES,
        group::CASES,
        order::CASES,
        dead::CASES,
        poison::CASES,
        shutdown::CASES,
        faults::CASES,
    ];
    modules.into_iter().flatten().copied()
}
