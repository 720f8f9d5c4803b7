//! Tests of the API on every storage: the same requests have the same responses, and several servers on one storage
//! share the work. PostgreSQL is ignored without `PUNCTUAL_POSTGRES_URL`, and fails without it when `PUNCTUAL_REQUIRE`
//! names it.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a set-up that fails is a test that fails

mod clocked;
mod cluster;
mod documents;
mod jobs;
mod messages;
mod test_storage;
mod transcript;
mod work;

use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use punctual::SystemClock;
use punctual::clock::{Clock, add, within};

use test_storage::{Kind, TestStorage};
use transcript::Transcript;

/// Timeout of a case on a busy machine.
const CASE_TIMEOUT: Duration = Duration::from_secs(180);

type CaseFuture<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;
/// Requests whose responses must be the same on every storage.
type Flow = for<'a> fn(&'a mut Transcript) -> CaseFuture<'a>;
/// A case on one storage.
type Single = for<'a> fn(&'a TestStorage) -> CaseFuture<'a>;

const FLOWS: [(&str, Flow); 6] = [
    ("jobs_are_defined_edited_and_deleted", |transcript| Box::pin(jobs::defined(transcript))),
    ("jobs_are_paused_triggered_and_backfilled", |transcript| Box::pin(jobs::operated(transcript))),
    ("messages_are_published_found_and_moved", |transcript| {
        Box::pin(messages::published(transcript))
    }),
    ("dead_letters_are_grouped_and_redriven", |transcript| Box::pin(messages::dead(transcript))),
    ("queues_are_paused_limited_and_purged", |transcript| Box::pin(messages::queues(transcript))),
    ("users_tokens_views_and_audit_entries_are_stored", |transcript| {
        Box::pin(documents::stored(transcript))
    }),
];

const SINGLE: [(&str, Single); 2] = [
    ("expired_documents_are_deleted", |test_storage| Box::pin(documents::expired(test_storage))),
    ("of_two_concurrent_edits_one_is_refused", |test_storage| Box::pin(jobs::raced(test_storage))),
];

/// Cases with several servers.
const SHARED: [(&str, Single); 3] = [
    ("two_servers_share_the_work", |test_storage| Box::pin(cluster::shared(test_storage))),
    ("a_server_takes_over_from_one_that_died", |test_storage| {
        Box::pin(cluster::taken_over(test_storage))
    }),
    ("roles_are_split_between_servers", |test_storage| Box::pin(cluster::split(test_storage))),
];

fn main() -> ExitCode {
    let required = std::env::var("PUNCTUAL_REQUIRE").unwrap_or_default();
    let trials = Kind::ALL.into_iter().flat_map(|kind| {
        let missing = kind.address().is_none();
        let is_required = required.split(',').any(|one| one.trim() == kind.name());
        let ignored = missing && !is_required;
        let shared: &[_] = if kind == Kind::Memory { &[] } else { &SHARED };
        let flows = FLOWS.into_iter().map(move |(name, flow)| (name, Case::Flow(flow)));
        let single = SINGLE.iter().chain(shared).map(|(name, run)| (*name, Case::Single(*run)));
        flows.chain(single).map(move |(name, case)| {
            let act = move || if missing { Err(absent()) } else { case.run(kind) };
            Trial::test(format!("{}::{name}", kind.name()), act).with_ignored_flag(ignored)
        })
    });
    let arguments = Arguments::from_args();
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

fn absent() -> Failed {
    Failed::from("PUNCTUAL_POSTGRES_URL is not set")
}

#[derive(Clone, Copy)]
enum Case {
    Flow(Flow),
    Single(Single),
}

impl Case {
    fn run(self, kind: Kind) -> Result<(), Failed> {
        let runtime = tokio::runtime::Runtime::new()?;
        let until = add(SystemClock.now(), CASE_TIMEOUT);
        let ran = runtime.block_on(within(&SystemClock, until, async {
            match self {
                Self::Flow(flow) => compare(kind, flow).await,
                Self::Single(run) => {
                    let test_storage = TestStorage::new(kind);
                    run(&test_storage).await;
                    test_storage.remove().await;
                }
            }
        }));
        runtime.shutdown_background();
        ran.ok_or_else(|| Failed::from("the case took too long"))
    }
}

/// Runs the requests in memory, which is the reference, and on the storage; both transcripts must be equal.
async fn compare(kind: Kind, flow: Flow) {
    let expected = record_transcript(Kind::Memory, flow).await;
    if kind == Kind::Memory {
        return;
    }
    let found = record_transcript(kind, flow).await;
    for (expected, found) in expected.iter().zip(&found) {
        assert_eq!(found, expected, "{} responds differently from memory", kind.name());
    }
    assert_eq!(expected.len(), found.len());
}

async fn record_transcript(kind: Kind, flow: Flow) -> Vec<String> {
    let test_storage = TestStorage::new(kind);
    let mut transcript = Transcript::on(&test_storage).await;
    flow(&mut transcript).await;
    let lines = transcript.end().await;
    test_storage.remove().await;
    lines
}
