//! The API on every storage: the same requests are answered with the same words whatever remembers, and
//! several servers on one storage share the work. PostgreSQL is ignored without `PUNCTUAL_POSTGRES_URL`, and
//! fails without it when `PUNCTUAL_REQUIRE` names it.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a set-up that fails is a test that fails

mod clocked;
mod cluster;
mod jobs;
mod messages;
mod people;
mod place;
mod talk;
mod work;

use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use punctual::SystemClock;
use punctual::clock::{Clock, add, within};

use place::{Kind, Place};
use talk::Talk;

/// The most a case may take, on a busy machine.
const LEN_MAX: Duration = Duration::from_secs(180);

type Ran<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;
/// A conversation: requests whose answers must be the same everywhere.
type Flow = for<'a> fn(&'a mut Talk) -> Ran<'a>;
/// A case that looks at a storage by itself.
type Alone = for<'a> fn(&'a Place) -> Ran<'a>;

const FLOWS: [(&str, Flow); 6] = [
    ("jobs_are_defined_edited_and_deleted", |talk| Box::pin(jobs::defined(talk))),
    ("jobs_are_paused_triggered_and_backfilled", |talk| Box::pin(jobs::operated(talk))),
    ("messages_are_published_found_and_moved", |talk| Box::pin(messages::published(talk))),
    ("dead_letters_are_grouped_and_redriven", |talk| Box::pin(messages::dead(talk))),
    ("queues_are_paused_limited_and_purged", |talk| Box::pin(messages::queues(talk))),
    ("people_their_tokens_views_and_traces_are_kept", |talk| Box::pin(people::kept(talk))),
];

const ALONE: [(&str, Alone); 2] = [
    ("what_has_expired_is_deleted", |place| Box::pin(people::expired(place))),
    ("two_edits_of_one_definition_do_not_both_win", |place| Box::pin(jobs::raced(place))),
];

/// Where one server's work can be seen by another.
const SHARED: [(&str, Alone); 3] = [
    ("two_servers_share_the_work", |place| Box::pin(cluster::shared(place))),
    ("a_server_takes_over_from_one_that_died", |place| Box::pin(cluster::taken_over(place))),
    ("roles_are_split_between_servers", |place| Box::pin(cluster::split(place))),
];

fn main() -> ExitCode {
    let required = std::env::var("PUNCTUAL_REQUIRE").unwrap_or_default();
    let trials = Kind::ALL.into_iter().flat_map(|kind| {
        let missing = kind.address().is_none();
        let is_required = required.split(',').any(|one| one.trim() == kind.word());
        let ignored = missing && !is_required;
        let shared: &[_] = if kind == Kind::Memory { &[] } else { &SHARED };
        let flows = FLOWS.into_iter().map(move |(name, flow)| (name, Case::Flow(flow)));
        let alone = ALONE.iter().chain(shared).map(|(name, run)| (*name, Case::Alone(*run)));
        flows.chain(alone).map(move |(name, case)| {
            let act = move || if missing { Err(absent()) } else { case.run(kind) };
            Trial::test(format!("{}::{name}", kind.word()), act).with_ignored_flag(ignored)
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
    Alone(Alone),
}

impl Case {
    fn run(self, kind: Kind) -> Result<(), Failed> {
        let runtime = tokio::runtime::Runtime::new()?;
        let until = add(SystemClock.now(), LEN_MAX);
        let ran = runtime.block_on(within(&SystemClock, until, async {
            match self {
                Self::Flow(flow) => compared(kind, flow).await,
                Self::Alone(run) => {
                    let place = Place::new(kind);
                    run(&place).await;
                    place.remove().await;
                }
            }
        }));
        runtime.shutdown_background();
        ran.ok_or_else(|| Failed::from("the case took too long"))
    }
}

/// Has the conversation in memory, which is the reference, and on the storage; both must read the same.
async fn compared(kind: Kind, flow: Flow) {
    let wanted = transcript(Kind::Memory, flow).await;
    if kind == Kind::Memory {
        return;
    }
    let found = transcript(kind, flow).await;
    for (wanted, found) in wanted.iter().zip(&found) {
        assert_eq!(found, wanted, "{} answers something else than memory", kind.word());
    }
    assert_eq!(wanted.len(), found.len());
}

async fn transcript(kind: Kind, flow: Flow) -> Vec<String> {
    let place = Place::new(kind);
    let mut talk = Talk::on(&place).await;
    flow(&mut talk).await;
    let lines = talk.end().await;
    place.remove().await;
    lines
}
