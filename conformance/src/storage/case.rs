//! A behaviour as a case: a runtime with several threads, a fresh place, a bound, and the data taken
//! away afterwards, whatever happened.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::time::Duration;

use punctual::ManualClock;

use super::Fixture;
use super::backend::Backend;
use super::fixture::at;
use crate::case::{bounded, name, runtime};

/// The most a case may take in real time. It is far more than any needs; what it bounds is waiting
/// for ever.
const CASE_TIMEOUT: Duration = Duration::from_secs(100);

/// A behaviour and where it stands.
#[derive(Clone, Copy)]
pub(super) struct Case {
    pub(super) module: &'static str,
    pub(super) behaviour: &'static str,
    pub(super) run: fn(Fixture) -> Pin<Box<dyn Future<Output = ()>>>,
}

impl Case {
    /// Module and behaviour, such as `claim::queues_do_not_see_each_other`.
    pub(super) fn name(&self) -> String {
        name(self.module, self.behaviour)
    }
}

/// Lists the behaviours of a module. A test sees to it that none is forgotten.
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

pub(super) fn try_case(case: &Case, backend: &Backend) -> Result<(), String> {
    let make = backend.make.as_ref().map_err(Clone::clone)?;
    let runtime = runtime()?;
    let clock = ManualClock::new(at(0));
    let place = runtime
        .block_on(make(clock.clone()))
        .map_err(|error| format!("no place for the case: {error}"))?;
    let node = runtime.block_on(place.open());
    let tried = node.map_err(|error| format!("no node on a fresh place: {error}")).map(|node| {
        let fixture = Fixture::new(node, place.clone(), clock, backend.traits);
        catch_unwind(AssertUnwindSafe(|| {
            runtime.block_on(bounded(CASE_TIMEOUT, (case.run)(fixture)))
        }))
    });
    let removed = runtime.block_on(place.remove());
    match tried? {
        Err(panic) => resume_unwind(panic),
        Ok(None) => return Err(format!("not done within {CASE_TIMEOUT:?}")),
        Ok(Some(())) => {}
    }
    removed.map_err(|error| format!("the data could not be taken away: {error}"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_behaviour_that_is_written_is_a_case_and_once() {
        let listed: Vec<String> = crate::storage::cases().map(|case| case.name()).collect();
        crate::case::all_are_listed("src/storage", &listed);
    }
}
