//! Transport suite: the behaviour that [`punctual::Transport`] promises, and that a process behaves the same
//! on every transport, whatever its capabilities. One behaviour per function, one module per subject.
//!
//! Brokers have separate clocks, so all cases run in real time: delays are short, and every wait is for an
//! event and has a timeout.
//!
//! A case ends in one of four ways: passed; *refused as declared*, when the transport's
//! [`Capabilities`](punctual::backend::transport::Capabilities) do not include this and it refuses it or leaves it to the
//! engine, as it must; ignored with a reason, when it cannot run here; or failed. Without the broker no case
//! passes.

mod backend;
#[macro_use]
mod case;
mod fixture;
mod matrix;
mod results;

// The name of a behaviour documents it.
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

pub use self::backend::{Backend, Environment, Need, Stores, over};
pub use self::fixture::{Fixture, TestConsumer, Worker};
pub use self::matrix::Matrix;
pub use self::results::{RESULTS, RecordedResults};

use self::case::{Case, run_case};
use self::results::ResultsWriter;
use crate::harness::{self, Availability, TestCase, catch_panic};

/// Number of cases that run in parallel in one process; they mostly wait.
const CONCURRENCY: usize = 8;

/// Runs the behaviours that the command line selects on a transport; the only call of `main`.
pub fn run(name: &str, backend: Backend) -> ExitCode {
    let missing = backend.make.as_ref().err().cloned();
    let (backend, results) = (Arc::new(backend), ResultsWriter::of(name));
    results.create_folder();
    let cases = cases().map(|case| {
        let (name, skip_reason) = (case.name(), case.skip_reason(&backend));
        if let Some(reason) = &skip_reason {
            results.skipped(&name, reason);
        }
        let (backend, results, written) = (Arc::clone(&backend), results.clone(), name.clone());
        let run = Box::new(move || {
            let outcome = catch_panic(|| run_case(&case, &backend, &results));
            results.finished(&written, &outcome);
            outcome.map(|_| ())
        });
        TestCase { name, skip_reason, run }
    });
    harness::run_in_parallel(CONCURRENCY, name, &Availability::of(name, missing), cases.collect())
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
