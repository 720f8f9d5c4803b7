//! The suite for storages: what [`punctual::Storage`], [`punctual::Inspect`], [`punctual::Inbox`]
//! and [`punctual::DocumentStore`] promise, one behaviour per function, one module per call or question.

mod backend;
#[macro_use]
mod case;
mod fixture;

// A behaviour's name is its sentence.
#[allow(missing_docs)]
pub mod batch;
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
pub mod fire;
#[allow(missing_docs)]
pub mod groups;
#[allow(missing_docs)]
pub mod inbox;
#[allow(missing_docs)]
pub mod inspect;
#[allow(missing_docs)]
pub mod instants;
#[allow(missing_docs)]
pub mod jobs;
#[allow(missing_docs)]
pub mod lease;
#[allow(missing_docs)]
pub mod limits;
#[allow(missing_docs)]
pub mod members;
#[allow(missing_docs)]
pub mod pages;
#[allow(missing_docs)]
pub mod pausing;
#[allow(missing_docs)]
pub mod prune;
#[allow(missing_docs)]
pub mod reclaim;
#[allow(missing_docs)]
pub mod record;
#[allow(missing_docs)]
pub mod restart;
#[allow(missing_docs)]
pub mod restore;
#[allow(missing_docs)]
pub mod settle;
#[allow(missing_docs)]
pub mod steer;
#[allow(missing_docs)]
pub mod telling;
#[allow(missing_docs)]
pub mod topics;
#[allow(missing_docs)]
pub mod turns;
#[allow(missing_docs)]
pub mod unique;
#[allow(missing_docs)]
pub mod wakeup;

use std::process::ExitCode;
use std::sync::Arc;

pub use self::backend::{Backend, Node, Place};
pub use self::fixture::{Fixture, at};

use self::case::{Case, try_case};
use crate::harness::{self, Presence, Trying};

/// Tries every behaviour on a storage, as the command line asks: the whole of a `main`.
pub fn run(name: &str, backend: Backend) -> ExitCode {
    let missing = backend.make.as_ref().err().cloned();
    let backend = Arc::new(backend);
    let cases = cases().map(|case| {
        let backend = Arc::clone(&backend);
        let run = Box::new(move || try_case(&case, &backend));
        Trying { name: case.name(), lacks: None, run }
    });
    harness::run(name, &Presence::of(name, missing), cases.collect())
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
        members::CASES,
        pages::CASES,
        pausing::CASES,
        prune::CASES,
        reclaim::CASES,
        record::CASES,
        restart::CASES,
        restore::CASES,
        settle::CASES,
        steer::CASES,
        telling::CASES,
        topics::CASES,
        turns::CASES,
        unique::CASES,
        wakeup::CASES,
    ];
    modules.into_iter().flatten().copied()
}
