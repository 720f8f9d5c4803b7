//! Interrupted programs: a crash or a stop of the process ends them. The programs are real, the clock is manual.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use punctual::clock::{Clock, add, within};
use punctual::inspect::{ExecutionFilter, Inspect, PageRequest};
use punctual::model::{DeadReason, Execution, MessageState};
use punctual::{ManualClock, MemoryStorage, Punctual, SystemClock};
use punctual_server::config::Config;
use punctual_server::{JobSpec, TargetServices};
use serde_json::{Value, json};

/// Timeout that is long enough on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Shell line that hangs the first time, and exits at once every other time.
const LINE: &str = "echo start >> starts; test $(wc -l < starts) -gt 1 || exec sleep 60; \
                    echo attempt=$PUNCTUAL_ATTEMPT crashes=$PUNCTUAL_CRASHES";

/// State that outlives a process: the clock, the storage and the folder of the program.
struct World {
    clock: Arc<ManualClock>,
    storage: Arc<MemoryStorage>,
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new("2026-03-02T07:00:00Z".parse().unwrap()));
        let storage = Arc::new(MemoryStorage::new(clock.clone()));
        Self { clock, storage, folder: tempfile::tempdir().unwrap() }
    }

    /// Starts a process with the handlers of the targets.
    async fn node(&self) -> Punctual {
        let mut config = Config::default();
        config.command.enabled = true;
        let services = TargetServices::new(&config, self.clock.clone()).unwrap();
        let builder = Punctual::builder().clock(self.clock.clone()).storage(self.storage.clone());
        let node = services.register(builder).build().unwrap();
        node.start().await.unwrap();
        node
    }

    /// Starts a node and waits until it runs the program.
    async fn in_the_middle(&self, more: &Value) -> Punctual {
        let node = self.node().await;
        let mut spec = json!({"every": "24h", "retry": 0,
            "command": {"program": LINE, "shell": true, "directory": self.folder.path()}});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let spec: JobSpec = serde_json::from_value(spec).unwrap();
        node.admin().declare(spec.builder("backup").unwrap()).await.unwrap();
        node.admin().trigger("backup", false).await.unwrap();
        self.until(Duration::ZERO, async || (self.starts() == 1).then_some(())).await;
        node
    }

    /// Returns how often the program was started.
    fn starts(&self) -> usize {
        let starts: &Path = &self.folder.path().join("starts");
        std::fs::read_to_string(starts).map_or(0, |text| text.lines().count())
    }

    /// Repeats a check, advancing the clock in between, until it returns a value.
    async fn until<T>(&self, step: Duration, found: impl AsyncFn() -> Option<T>) -> T {
        let looking = async {
            loop {
                if let Some(found) = found().await {
                    return found;
                }
                self.clock.advance(step);
                SystemClock.sleep_until(add(SystemClock.now(), Duration::from_millis(10))).await;
            }
        };
        within(&SystemClock, add(SystemClock.now(), TIMEOUT), looking).await.unwrap()
    }

    /// Lets a node run everything that is due within a few minutes.
    async fn settle(&self, node: &Punctual) {
        for _ in 0..20 {
            self.clock.advance(Duration::from_secs(10));
            self.until(Duration::ZERO, async || node.is_idle().then_some(())).await;
        }
    }

    /// Waits for this number of executions and returns them in the order of their start.
    async fn executions(&self, count: usize) -> Vec<Execution> {
        self.until(Duration::from_secs(2), async || {
            let filter = ExecutionFilter::default();
            let found =
                Inspect::executions(&*self.storage, filter, PageRequest::first(10)).await.unwrap();
            let mut rows = found.rows;
            // A lost execution ends when it is detected, so the order of the starts counts.
            rows.sort_by_key(|row| row.started_at);
            (rows.len() == count).then_some(rows)
        })
        .await
    }
}

fn endings(executions: &[Execution]) -> Vec<&'static str> {
    executions.iter().map(|execution| execution.ending.as_str()).collect()
}

// Finding P9 of the newcomer's review: a program could not detect that it had been started before.
// spec: H-7
#[tokio::test]
async fn a_program_receives_the_number_of_crashes() {
    let world = World::new();
    drop(world.in_the_middle(&json!({})).await);
    let _other = world.node().await;
    let executions = world.executions(2).await;
    assert_eq!(endings(&executions), ["lost", "succeeded"]);
    assert_eq!(executions[1].log.as_deref(), Some("attempt=1 crashes=1"));
}

/// Stops a node during a run, without time to finish it.
async fn stop(world: &World, node: &Punctual) {
    let stopping = node.shutdown();
    let time = async {
        loop {
            SystemClock.sleep_until(add(SystemClock.now(), Duration::from_millis(10))).await;
            world.clock.advance(Duration::from_secs(2));
        }
    };
    tokio::select! {
        stopped = stopping => assert_eq!(stopped.interrupted, 1),
        () = time => {}
    }
}

// Finding P9 of the newcomer's review: an interrupted program was run again from its start.
// spec: H-28
#[tokio::test]
async fn a_program_interrupted_by_a_stop_is_restarted_unless_lost() {
    for (job, expected) in [
        (json!({}), ["released", "succeeded"].as_slice()),
        (json!({"when_interrupted": "again"}), &["released", "succeeded"]),
        (json!({"when_interrupted": "lost"}), &["lost"]),
    ] {
        let world = World::new();
        let node = world.in_the_middle(&job).await;
        stop(&world, &node).await;
        let other = world.node().await;
        assert_eq!(endings(&world.executions(expected.len()).await), expected, "{job}");
        world.settle(&other).await;
        assert_eq!(world.starts(), expected.len(), "{job}");
    }
}

// Finding P9 of the newcomer's review: an interrupted program was run again from its start.
#[tokio::test]
async fn a_program_interrupted_by_a_crash_becomes_a_dead_letter_with_lost() {
    let world = World::new();
    drop(world.in_the_middle(&json!({"when_interrupted": "lost", "retry": 3})).await);
    let other = world.node().await;
    let executions = world.executions(1).await;
    assert_eq!(endings(&executions), ["lost"]);
    world.settle(&other).await;
    assert_eq!(world.starts(), 1, "it is not started again");
    let message = executions[0].message.unwrap();
    let record = Inspect::message(&*world.storage, message).await.unwrap().unwrap();
    assert_eq!((record.state, record.dead), (MessageState::Dead, Some(DeadReason::Interrupted)));
}
