//! World of one seed: machines with processes, one storage, one broker, and time that jumps from event to event. A
//! step runs all tasks until they are idle, checks the rules and advances time.

mod disrupt;
mod finish;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use punctual::clock::add;
use punctual::inspect::{MessageFilter, PageRequest};
use punctual::jiff::{SignedDuration, Timestamp};
use punctual::model::Ids;
use punctual::{Inspect, Punctual};

use super::broker::{Broker, BrokerConnection};
use super::faults::Fault;
use super::faulty_storage::FaultyStorage;
use super::handlers::{CARRIED, WORK, handle};
use super::ledger::{Tally, Violation};
use super::machine::{Machine, MachineClock};
use super::plans::{JobPlan, StartPoint, draw_handler_options, draw_releases};
use super::random::{Random, mix};
use super::shared::{Shared, Trace};
use super::workload::{BROKER, Targets, User};

/// Number of turns of the runtime without activity after which all tasks are idle.
const IDLE_TURNS: u32 = 12;
/// Largest number of turns of the runtime in one step; more means that a task spins.
const TURNS_MAX: u32 = 20_000;
/// Number of steps between two comparisons of all stored messages.
const COMPARE_ALL_EVERY: u64 = 64;
/// Largest number of steps of a seed; more means that it never becomes idle.
const STEPS_MAX: u64 = 200_000;

/// Result of a seed.
pub(crate) struct SeedResult {
    pub(crate) seed: u64,
    pub(crate) violation: Option<Violation>,
    pub(crate) steps: u64,
    pub(crate) virtual_time: SignedDuration,
    pub(crate) tally: Tally,
    pub(crate) faults: Vec<u64>,
    pub(crate) trace: Trace,
}

/// Runs one seed.
pub(crate) fn run(seed: u64, traced: bool) -> SeedResult {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async move {
        let mut random = Random::new(seed);
        let start_point = StartPoint::draw(&mut random);
        let mut world = World::new(seed, &start_point, random, traced);
        world.run_phases().await;
        world.result(start_point.start)
    })
}

/// Machines and planned events.
struct World {
    shared: Arc<Shared>,
    broker: Arc<Broker>,
    slots: Vec<Slot>,
    releases: Vec<Vec<JobPlan>>,
    release: usize,
    threshold_default: Duration,
    agenda: BTreeMap<(Timestamp, u64), WorldEvent>,
    event_count: u64,
    steps: u64,
}

/// Machine on which processes start and stop.
#[derive(Default)]
struct Slot {
    user: Option<User>,
    starts: u32,
    shutting_down: bool,
    skew: SignedDuration,
}

#[derive(Clone, Copy, Debug)]
enum WorldEvent {
    Act,
    Disrupt,
    Start(usize),
}

impl World {
    fn new(seed: u64, start_point: &StartPoint, mut random: Random, traced: bool) -> Self {
        let releases = draw_releases(start_point, &mut random);
        let slots = (0..random.between(2, 4)).map(|_| Slot::default()).collect();
        let threshold_default = random.seconds(20, 120);
        let shared = Shared::new(seed, start_point.start, random, traced);
        let handler_options = Arc::new(shared.draw(draw_handler_options));
        for topic in [WORK, CARRIED] {
            shared.ledger().handler_options.insert(topic.to_owned(), handler_options.clone());
        }
        Self {
            broker: Broker::new(shared.clone()),
            slots,
            releases,
            release: 0,
            threshold_default,
            agenda: BTreeMap::new(),
            event_count: 0,
            steps: 0,
            shared,
        }
    }

    /// Runs all phases: with faults, without faults, shutdown.
    async fn run_phases(&mut self) {
        for slot in 0..self.slots.len() {
            self.plan(Duration::from_secs(slot as u64), WorldEvent::Start(slot));
        }
        self.plan(Duration::from_secs(5), WorldEvent::Act);
        self.plan(Duration::from_secs(60), WorldEvent::Disrupt);
        let duration = self.shared.draw(|random| random.seconds(1_200, 3_600));
        self.run_for(duration).await;
        self.finish().await;
    }

    fn plan(&mut self, wait: Duration, event: WorldEvent) {
        self.event_count += 1;
        self.agenda.insert((add(self.shared.now(), wait), self.event_count), event);
    }

    /// Runs the world for a duration of virtual time.
    async fn run_for(&mut self, duration: Duration) {
        let end = add(self.shared.now(), duration);
        loop {
            self.run_until_idle().await;
            self.check().await;
            self.steps += 1;
            if self.steps > STEPS_MAX {
                self.shared
                    .ledger()
                    .record_violation("the world becomes idle", format!("{} steps", self.steps));
            }
            if self.is_over() {
                return;
            }
            self.remove_stopped();
            let now = self.shared.now();
            let event = self.agenda.keys().next().map(|(at, _)| *at);
            let next = [event, self.shared.clock.next_wake(), Some(end)]
                .into_iter()
                .flatten()
                .min()
                .unwrap_or(end);
            if now >= end {
                return;
            }
            self.shared.clock.set(next.max(now));
            self.run_due_events();
        }
    }

    fn is_over(&self) -> bool {
        self.shared.ledger().violation().is_some()
    }

    /// Runs all tasks until they are idle.
    async fn run_until_idle(&self) {
        let (mut idle_turns, mut last_activity, mut turns) = (0, self.shared.activity(), 0);
        while idle_turns < IDLE_TURNS && turns < TURNS_MAX {
            tokio::task::yield_now().await;
            turns += 1;
            let activity = self.shared.activity();
            idle_turns = if activity == last_activity { idle_turns + 1 } else { 0 };
            last_activity = activity;
        }
        self.shared.ledger().must(turns < TURNS_MAX, "the world becomes idle", || {
            format!("not at {}", self.shared.now())
        });
    }

    /// Executes all due events of the agenda.
    fn run_due_events(&mut self) {
        let now = self.shared.now();
        while let Some(entry) = self.agenda.first_entry().filter(|entry| entry.key().0 <= now) {
            match entry.remove() {
                WorldEvent::Act => self.act(),
                WorldEvent::Disrupt => self.disrupt(),
                WorldEvent::Start(slot) => self.start(slot),
            }
        }
    }

    fn act(&mut self) {
        if self.shared.faults_stopped() {
            return;
        }
        let (users, shared) = (self.users(), self.shared.clone());
        if !users.is_empty() {
            let jobs = self.releases[self.release].iter().map(|plan| plan.name.clone()).collect();
            let messages = shared.ledger().messages.keys().rev().take(30).copied().collect();
            shared.draw(|random| random.pick(&users).act(random, &Targets { jobs, messages }));
        }
        let wait = shared.draw(|random| random.millis(500, 45_000));
        self.plan(wait, WorldEvent::Act);
    }

    /// Returns users of processes that run and are not shutting down.
    fn users(&self) -> Vec<User> {
        self.slots
            .iter()
            .filter(|slot| !slot.shutting_down)
            .filter_map(|slot| slot.user.clone())
            .collect()
    }

    /// Removes dead and stopped processes and plans their next start.
    fn remove_stopped(&mut self) {
        for index in 0..self.slots.len() {
            let slot = &mut self.slots[index];
            if slot.user.as_ref().is_some_and(|user| user.machine.is_dead()) {
                slot.user = None;
                slot.shutting_down = false;
                let wait = self.shared.draw(|random| random.seconds(1, 120));
                self.plan(wait, WorldEvent::Start(index));
            } else if slot.shutting_down
                && slot.user.as_ref().is_some_and(|user| user.machine.has_stopped())
            {
                slot.user = None;
                slot.shutting_down = false;
                let wait = self.shared.draw(|random| random.seconds(1, 300));
                self.plan(wait, WorldEvent::Start(index));
            }
        }
    }

    /// Starts a process with a new id, possibly an older release and a wrong clock.
    fn start(&mut self, index: usize) {
        if self.slots[index].user.is_some() {
            return;
        }
        let shared = self.shared.clone();
        let is_older = self.release > 0 && shared.occurs(Fault::DeployedOld);
        let release = if is_older { self.release - 1 } else { self.release };
        if shared.occurs(Fault::StartedSkewed) {
            self.slots[index].skew = shared.draw(draw_skew);
        }
        let slot = &mut self.slots[index];
        slot.starts += 1;
        let name = format!("node-{index}.{}", slot.starts);
        let machine = Machine::new(name, shared.clone(), slot.skew);
        let punctual = Arc::new(self.build(&machine, release));
        let _ = machine.process.set(punctual.process_id());
        let skew = machine.skew();
        shared.note(|| format!("{} starts with release {release}, skew {skew:?}", machine.name));
        let starting = punctual.clone();
        tokio::spawn(async move { starting.start().await });
        self.slots[index].user = Some(User { punctual, machine });
    }

    fn build(&self, machine: &Arc<Machine>, release: usize) -> Punctual {
        let shared = &self.shared;
        let ids = mix(shared.seed ^ mix(shared.draw(Random::next)));
        let storage = Arc::new(FaultyStorage::new(machine.clone(), self.threshold_default));
        let connection = BrokerConnection { broker: self.broker.clone(), machine: machine.clone() };
        let handler_options = shared.ledger().handler_options[WORK].clone();
        let on = |machine: &Arc<Machine>| {
            let machine = machine.clone();
            move |_: serde_json::Value, context| handle(machine.clone(), context)
        };
        let threshold = self.threshold_default;
        let mut builder = Punctual::builder()
            .app("simulated")
            .release(release as u64)
            .clock(Arc::new(MachineClock(machine.clone())))
            .ids(Arc::new(Ids::seeded(ids)))
            .storage(storage)
            .transport(BROKER, Arc::new(connection))
            .handler_with(WORK, (*handler_options).clone(), on(machine))
            .handler_with(CARRIED, (*handler_options).clone(), on(machine))
            .subscribe(BROKER, CARRIED, "all")
            .queue("default", shared.draw(|random| *random.pick(&[1, 2, 3, 4])))
            .queue("bulk", 1)
            .options(|options| shared.draw(|random| draw_options(options, threshold, random)));
        for plan in &self.releases[release] {
            builder = builder.job(plan.builder(), on(machine));
        }
        builder.build().expect("a process")
    }

    /// Checks the rules that hold whenever the world is idle.
    async fn check(&self) {
        let now = self.shared.now();
        let counts = self.shared.storage.counts(now).await.expect("memory storage");
        self.shared.ledger().compare_counts(&counts);
        if self.steps.is_multiple_of(COMPARE_ALL_EVERY) {
            self.compare_all().await;
        }
    }

    /// Compares all stored messages with the expected ones.
    async fn compare_all(&self) {
        let storage = &self.shared.storage;
        let mut page = PageRequest::first(1_000);
        loop {
            let rows =
                storage.messages(MessageFilter::default(), page).await.expect("memory storage");
            let mut ledger = self.shared.ledger();
            for record in &rows.rows {
                ledger.compare(record.message.id, Some(record));
            }
            drop(ledger);
            let Some(next) = rows.next else { break };
            page = PageRequest::after(next, 1_000);
        }
        let vanished = self.shared.ledger().vanished();
        self.shared.ledger().must(vanished.is_empty(), "no accepted message disappears", || {
            format!("{vanished:?}")
        });
    }

    fn result(&self, start: Timestamp) -> SeedResult {
        let ledger = self.shared.ledger();
        SeedResult {
            seed: self.shared.seed,
            violation: ledger.violation(),
            steps: self.steps,
            virtual_time: self.shared.now().duration_since(start),
            tally: ledger.tally,
            faults: Fault::ALL.iter().map(|fault| self.shared.faults.counted(*fault)).collect(),
            trace: self.shared.take_trace(),
        }
    }
}

/// Draws a clock error: usually up to ten minutes, sometimes up to an hour.
fn draw_skew(random: &mut Random) -> SignedDuration {
    let most = *random.pick(&[2_000, 30_000, 600_000, 600_000, 3_600_000]);
    let duration = SignedDuration::from_millis(i64::try_from(random.between(1, most)).unwrap_or(1));
    if random.percent(50) { duration } else { -duration }
}

fn draw_options(options: &mut punctual::Options, threshold: Duration, random: &mut Random) {
    options.lease_duration = Duration::from_secs(60);
    options.poll_interval = random.seconds(10, 30);
    options.rescue_interval = Duration::from_secs(30);
    options.misfire_threshold = threshold;
    options.concurrency = 2;
    options.batch_max = *random.pick(&[1, 3, 100]);
    options.drain_timeout = random.seconds(0, 20);
    options.cancel_timeout = random.seconds(1, 5);
    options.settle_timeout = random.seconds(10, 60);
    options.retention = random.percent(15).then(|| Duration::from_secs(3_600));
}
