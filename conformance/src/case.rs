//! What the cases of every suite share: a name, a runtime with several threads, and a bound.

use std::future::Future;
use std::time::Duration;

use punctual::clock::{add, within};
use punctual::{Clock, SystemClock};
use tokio::runtime::{Builder, Runtime};

/// As many threads as concurrent behaviours need to be concurrent.
const THREADS: usize = 4;

/// Module and behaviour, such as `claim::queues_do_not_see_each_other`.
pub(crate) fn name(module: &str, behaviour: &str) -> String {
    let module = module.rsplit("::").next().unwrap_or_default();
    format!("{module}::{behaviour}")
}

pub(crate) fn runtime() -> Result<Runtime, String> {
    let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
    runtime.map_err(|error| format!("no runtime: {error}"))
}

/// What a case is worth that may take so long in real time, when it did not take longer.
pub(crate) async fn bounded(length: Duration, work: impl Future<Output = ()>) -> Option<()> {
    within(&SystemClock, add(SystemClock.now(), length), work).await
}

/// That every behaviour written in the modules of a folder is listed, and once.
#[cfg(test)]
pub(crate) fn all_are_listed(folder: &str, listed: &[String]) {
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
