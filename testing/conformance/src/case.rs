//! Case helpers shared by all suites: names, a multi-threaded runtime and a timeout.

use std::future::Future;
use std::time::Duration;

use punctual::clock::{add, within};
use punctual::{Clock, SystemClock};
use tokio::runtime::{Builder, Runtime};

/// Worker threads of a case's runtime; concurrent behaviours need more than one.
const THREADS: usize = 4;

/// Returns module and behaviour, such as `claim::queues_do_not_see_each_other`.
pub(crate) fn name(module: &str, behaviour: &str) -> String {
    let module = module.rsplit("::").next().unwrap_or_default();
    format!("{module}::{behaviour}")
}

pub(crate) fn runtime() -> Result<Runtime, String> {
    let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
    runtime.map_err(|error| format!("cannot start a runtime: {error}"))
}

/// Runs a case; returns `None` when it takes longer than the timeout in real time.
pub(crate) async fn with_timeout(timeout: Duration, work: impl Future<Output = ()>) -> Option<()> {
    within(&SystemClock, add(SystemClock.now(), timeout), work).await
}

/// Asserts that every behaviour in the modules of a folder is listed exactly once.
#[cfg(test)]
pub(crate) fn assert_all_listed(folder: &str, listed: &[String]) {
    use std::collections::BTreeSet;

    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut written = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let module = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        for line in text.lines().filter_map(|line| line.strip_prefix("pub async fn ")) {
            let (behaviour, _) = line.split_once('(').unwrap();
            written.insert(format!("{module}::{behaviour}"));
        }
    }
    let unique: BTreeSet<String> = listed.iter().cloned().collect();
    assert_eq!(unique.len(), listed.len());
    assert_eq!(unique, written);
}
