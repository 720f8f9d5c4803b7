//! Case of the storage suite: runs a behaviour on a multi-threaded runtime with an empty environment and a
//! timeout, and always removes the data afterwards.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::time::Duration;

use punctual::ManualClock;

use super::Fixture;
use super::backend::Backend;
use super::fixture::at;
use crate::case::{name, runtime, with_timeout};

/// Largest duration of a case in real time, far more than any case needs.
const CASE_TIMEOUT: Duration = Duration::from_secs(100);

/// A behaviour and its module.
#[derive(Clone, Copy)]
pub(super) struct Case {
    pub(super) module: &'static str,
    pub(super) behaviour: &'static str,
    pub(super) run: fn(Fixture) -> Pin<Box<dyn Future<Output = ()>>>,
}

impl Case {
    /// Returns module and behaviour, such as `claim::queues_do_not_see_each_other`.
    pub(super) fn name(&self) -> String {
        name(self.module, self.behaviour)
    }
}

/// Lists the behaviours of a module. A test checks that the list is complete.
macro_rules! behaviours {
    ($($behaviour:ident),+ $(,)?) => {
        pub(super) const CASES: &[$crate::storage::case::Case] = &[$(
            $crate::storage::case::Case {
                module: module_path!(),
                behaviour: stringify!($behaviour),
                run: |fixture| Box::pin($behaviour(fixture)),
            }
        ),+];
    };
}

pub(super) fn run_case(case: &Case, backend: &Backend) -> Result<(), String> {
    let make = backend.make.as_ref().map_err(Clone::clone)?;
    let runtime = runtime()?;
    let clock = ManualClock::new(at(0));
    let environment = runtime
        .block_on(make(clock.clone()))
        .map_err(|error| format!("cannot create an environment: {error}"))?;
    let node = runtime.block_on(environment.open());
    let tried = node.map_err(|error| format!("cannot open a node: {error}")).map(|node| {
        let fixture = Fixture::new(node, environment.clone(), clock, backend.traits);
        catch_unwind(AssertUnwindSafe(|| {
            runtime.block_on(with_timeout(CASE_TIMEOUT, (case.run)(fixture)))
        }))
    });
    let removed = runtime.block_on(environment.remove());
    match tried? {
        Err(panic) => resume_unwind(panic),
        Ok(None) => return Err(format!("timed out after {CASE_TIMEOUT:?}")),
        Ok(Some(())) => {}
    }
    removed.map_err(|error| format!("cannot remove the data: {error}"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_behaviour_is_listed_once() {
        let listed: Vec<String> = crate::storage::cases().map(|case| case.name()).collect();
        crate::case::assert_all_listed("src/storage", &listed);
    }
}
