//! Case of the transport suite: runs a behaviour on a multi-threaded runtime with a separate environment and a
//! timeout, and always removes the environment afterwards.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::time::Duration;

use super::Fixture;
use super::backend::{Backend, Need};
use super::results::ResultsWriter;
use crate::case::{name, runtime, with_timeout};

/// Largest duration of a case, far more than any case needs.
const CASE_TIMEOUT: Duration = Duration::from_secs(150);

/// A behaviour, its module and its needs.
#[derive(Clone, Copy)]
pub(super) struct Case {
    pub(super) module: &'static str,
    pub(super) behaviour: &'static str,
    pub(super) needs: &'static [Need],
    pub(super) run: fn(Fixture) -> Pin<Box<dyn Future<Output = ()>>>,
}

/// Outcome of a case that did not fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CaseOutcome {
    Passed,
    /// The transport declares that it does not do this, and refuses it or leaves it to the engine as it must.
    Refused(String),
}

impl Case {
    /// Returns module and behaviour, such as `group::each_group_gets_one_copy`.
    pub(super) fn name(&self) -> String {
        name(self.module, self.behaviour)
    }

    /// Returns the reason why the case cannot run on a back-end.
    pub(super) fn skip_reason(&self, backend: &Backend) -> Option<String> {
        self.needs.iter().find_map(|need| backend.unsupported.get(need).cloned())
    }
}

/// Lists the behaviours of a module, each with its needs. A test checks that the list is complete.
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

pub(super) fn run_case(
    case: &Case,
    backend: &Backend,
    results: &ResultsWriter,
) -> Result<CaseOutcome, String> {
    let make = backend.make.as_ref().map_err(Clone::clone)?;
    let runtime = runtime()?;
    let environment = runtime
        .block_on(make())
        .map_err(|error| format!("cannot create an environment: {error}"))?;
    let fixture = runtime.block_on(Fixture::on(environment.clone()));
    let tried = fixture.map_err(|error| format!("cannot open a node: {error}")).map(|fixture| {
        let note = fixture.note.clone();
        results.capabilities(&fixture.capabilities);
        let ran = catch_unwind(AssertUnwindSafe(|| {
            runtime.block_on(with_timeout(CASE_TIMEOUT, (case.run)(fixture)))
        }));
        (ran, note)
    });
    let removed = runtime.block_on(environment.remove());
    // A handler that never returns must not delay the end of the case.
    runtime.shutdown_background();
    let (ran, note) = tried?;
    match ran {
        Err(panic) => resume_unwind(panic),
        Ok(None) => return Err(format!("timed out after {CASE_TIMEOUT:?}")),
        Ok(Some(())) => {}
    }
    removed.map_err(|error| format!("cannot remove the environment: {error}"))?;
    Ok(note.take().map_or(CaseOutcome::Passed, CaseOutcome::Refused))
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_behaviour_is_listed_once() {
        let listed: Vec<String> = crate::transport::cases().map(|case| case.name()).collect();
        crate::case::assert_all_listed("src/transport", &listed);
    }
}
