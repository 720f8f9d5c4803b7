//! Storage suite: the behaviour that [`punctual::Storage`], [`punctual::Inspect`], [`punctual::Inbox`] and
//! [`punctual::DocumentStore`] promise, one behaviour per function, one module per call or subject.

mod backend;
#[macro_use]
mod case;
mod fixture;

// The name of a behaviour documents it.
#[allow(missing_docs)]
pub mod batch;
#[allow(missing_docs)]
pub mod batch_members;
#[allow(missing_docs)]
pub mod claim;
#[allow(missing_docs)]
pub mod command;
#[allow(missing_docs)]
pub mod contents;
#[allow(missing_docs)]
pub mod documents;
#[allow(missing_docs)]
pub mod documents_listed;
#[allow(missing_docs)]
pub mod enqueue;
#[allow(missing_docs)]
pub mod exclusive;
#[allow(missing_docs)]
pub mod fire;
#[allow(missing_docs)]
pub mod groups;
#[allow(missing_docs)]
pub mod import;
#[allow(missing_docs)]
pub mod inbox;
#[allow(missing_docs)]
pub mod inspect;
#[allow(missing_docs)]
pub mod instants;
#[allow(missing_docs)]
pub mod job_commands;
#[allow(missing_docs)]
pub mod jobs;
#[allow(missing_docs)]
pub mod lease;
#[allow(missing_docs)]
pub mod limits;
#[allow(missing_docs)]
pub mod pages;
#[allow(missing_docs)]
pub mod pausing;
#[allow(missing_docs)]
pub mod progress;
#[allow(missing_docs)]
pub mod prune;
#[allow(missing_docs)]
pub mod reclaim;
#[allow(missing_docs)]
pub mod record;
#[allow(missing_docs)]
pub mod restart;
#[allow(missing_docs)]
pub mod settle;
#[allow(missing_docs)]
pub mod topics;
#[allow(missing_docs)]
pub mod unique;
#[allow(missing_docs)]
pub mod wakeup;

use std::process::ExitCode;
use std::sync::Arc;

pub use self::backend::{Backend, Environment, Node};
pub use self::fixture::{Fixture, at};

use self::case::{Case, run_case};
use crate::harness::{self, Availability, TestCase};

/// Runs the behaviours that the command line selects on a storage; the only call of `main`.
pub fn run(name: &str, backend: Backend) -> ExitCode {
    let missing = backend.make.as_ref().err().cloned();
    let backend = Arc::new(backend);
    let cases = cases().map(|case| {
        let backend = Arc::clone(&backend);
        let run = Box::new(move || run_case(&case, &backend));
        TestCase { name: case.name(), skip_reason: None, run }
    });
    harness::run(name, &Availability::of(name, missing), cases.collect())
}

fn cases() -> impl Iterator<Item = Case> {
    let modules = [
        batch::CASES,
        claim::CASES,
        command::CASES,
        contents::CASES,
        documents::CASES,
        documents_listed::CASES,
        enqueue::CASES,
        fire::CASES,
        groups::CASES,
        inbox::CASES,
        inspect::CASES,
        instants::CASES,
        jobs::CASES,
        lease::CASES,
        limits::CASES,
        batch_members::CASES,
        pages::CASES,
        pausing::CASES,
        prune::CASES,
        reclaim::CASES,
        record::CASES,
        restart::CASES,
        import::CASES,
        settle::CASES,
        job_commands::CASES,
        progress::CASES,
        topics::CASES,
        exclusive::CASES,
        unique::CASES,
        wakeup::CASES,
    ];
    modules.into_iter().flatten().copied()
}
