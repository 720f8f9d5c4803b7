//! A behaviour as a case: a runtime with several threads, a place of its own, a bound, and everything
//! taken away afterwards, whatever happened.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::time::Duration;

use super::Fixture;
use super::backend::{Backend, Need};
use super::results::Results;
use crate::case::{bounded, name, runtime};

/// The most a case may take. It is far more than any needs; what it bounds is waiting for ever.
const CASE_TIMEOUT: Duration = Duration::from_secs(150);

/// A behaviour, where it stands and what it needs.
#[derive(Clone, Copy)]
pub(super) struct Case {
    pub(super) module: &'static str,
    pub(super) behaviour: &'static str,
    pub(super) needs: &'static [Need],
    pub(super) run: fn(Fixture) -> Pin<Box<dyn Future<Output = ()>>>,
}

/// What came of a case that did not fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Came {
    Passed,
    /// The transport does not do it, said so, and refuses it or leaves it to the engine as it should.
    Refused(String),
}

impl Case {
    /// Module and behaviour, such as `group::each_group_gets_one_copy`.
    pub(super) fn name(&self) -> String {
        name(self.module, self.behaviour)
    }

    /// Why it cannot be tried on a back-end, when it cannot.
    pub(super) fn lacks(&self, backend: &Backend) -> Option<String> {
        self.needs.iter().find_map(|need| backend.lacks.get(need).cloned())
    }
}

/// Lists the behaviours of a module, each with what it needs. A test sees to it that none is forgotten.
macro_rules! behaviours {
    ($($behaviour:ident $(needs $($need:ident)+)?),+ $(,)?) => {
        pub(super) const CASES: &[$crate::transport::case::Case] = &[$(
            $crate::transport::case::Case {
                module: module_path!(),
                behaviour: stringify!($behaviour),
                needs: &[$($($crate::transport::Need::$need),+)?],
                run: |fixture| Box::pin($behaviour(fixture)),
            }
        ),+];
    };
}

pub(super) fn try_case(case: &Case, backend: &Backend, results: &Results) -> Result<Came, String> {
    let make = backend.make.as_ref().map_err(Clone::clone)?;
    let runtime = runtime()?;
    let place =
        runtime.block_on(make()).map_err(|error| format!("no place for the case: {error}"))?;
    let fixture = runtime.block_on(Fixture::on(place.clone()));
    let tried =
        fixture.map_err(|error| format!("no node on a new place: {error}")).map(|fixture| {
            let note = fixture.note.clone();
            results.capabilities(&fixture.capabilities);
            let ran = catch_unwind(AssertUnwindSafe(|| {
                runtime.block_on(bounded(CASE_TIMEOUT, (case.run)(fixture)))
            }));
            (ran, note)
        });
    let removed = runtime.block_on(place.remove());
    // A handler that never returns must not keep the case.
    runtime.shutdown_background();
    let (ran, note) = tried?;
    match ran {
        Err(panic) => resume_unwind(panic),
        Ok(None) => return Err(format!("not done within {CASE_TIMEOUT:?}")),
        Ok(Some(())) => {}
    }
    removed.map_err(|error| format!("the place could not be taken away: {error}"))?;
    Ok(note.take().map_or(Came::Passed, Came::Refused))
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_behaviour_that_is_written_is_a_case_and_once() {
        let listed: Vec<String> = crate::transport::cases().map(|case| case.name()).collect();
        crate::case::all_are_listed("src/transport", &listed);
    }
}
