//! The world of one seed: machines with processes on them, one storage, one broker, and time that
//! jumps from event to event. A step is: let everybody run until nobody moves, check, move time.

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

use super::broker::{Broker, BrokerLink};
use super::faults::Fault;
use super::faulty_storage::FaultyStorage;
use super::handlers::{CARRIED, WORK, handle};
use super::ledger::{Tally, Violation};
use super::machine::{Machine, MachineClock};
use super::plans::{JobPlan, Scene, draw_releases, draw_terms};
use super::random::{Random, mix};
use super::shared::{Shared, Trace};
use super::workload::{BROKER, Targets, User};

/// How many quiet turns of the runtime mean that nobody moves any more.
const QUIET: u32 = 12;
/// More turns of the runtime than any moment needs: somebody spins.
const TURNS_MAX: u32 = 20_000;
/// After so many steps everything that is stored is compared.
const COMPARE_ALL_EVERY: u64 = 64;
/// More steps than any seed needs: a loop that does not come to rest.
const STEPS_MAX: u64 = 200_000;

/// What came of a seed.
pub(crate) struct Outcome {
    pub(crate) seed: u64,
    pub(crate) violation: Option<Violation>,
    pub(crate) steps: u64,
    pub(crate) virtual_time: SignedDuration,
    pub(crate) tally: Tally,
    pub(crate) faults: Vec<u64>,
    pub(crate) trace: Trace,
}

/// Runs one seed from beginning to end.
pub(crate) fn run(seed: u64, traced: bool) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async move {
        let mut random = Random::new(seed);
        let scene = Scene::draw(&mut random);
        let mut world = World::new(seed, &scene, random, traced);
        world.live().await;
        world.outcome(scene.start)
    })
}

/// Machines, and what is going to happen to them.
struct World {
    shared: Arc<Shared>,
    broker: Arc<Broker>,
    slots: Vec<Slot>,
    releases: Vec<Vec<JobPlan>>,
    release: usize,
    threshold_default: Duration,
    agenda: BTreeMap<(Timestamp, u64), Happening>,
    happenings: u64,
    steps: u64,
}

/// A machine's place in the world; processes come and go on it.
#[derive(Default)]
struct Slot {
    user: Option<User>,
    starts: u32,
    leaving: bool,
    skew: SignedDuration,
}

#[derive(Clone, Copy, Debug)]
enum Happening {
    Act,
    Disrupt,
    Start(usize),
}

impl World {
    fn new(seed: u64, scene: &Scene, mut random: Random, traced: bool) -> Self {
        let releases = draw_releases(scene, &mut random);
        let slots = (0..random.between(2, 4)).map(|_| Slot::default()).collect();
        let threshold_default = random.seconds(20, 120);
        let shared = Shared::new(seed, scene.start, random, traced);
        let handler_options = Arc::new(shared.draw(draw_terms));
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
            happenings: 0,
            steps: 0,
            shared,
        }
    }

    /// The whole story: trouble, then peace, then the end.
    async fn live(&mut self) {
        for slot in 0..self.slots.len() {
            self.plan(Duration::from_secs(slot as u64), Happening::Start(slot));
        }
        self.plan(Duration::from_secs(5), Happening::Act);
        self.plan(Duration::from_secs(60), Happening::Disrupt);
        let length = self.shared.draw(|random| random.seconds(1_200, 3_600));
        self.go_on_for(length).await;
        self.finish().await;
    }

    fn plan(&mut self, wait: Duration, happening: Happening) {
        self.happenings += 1;
        self.agenda.insert((add(self.shared.now(), wait), self.happenings), happening);
    }

    /// Lets time go on.
    async fn go_on_for(&mut self, length: Duration) {
        let end = add(self.shared.now(), length);
        loop {
            self.rest().await;
            self.check().await;
            self.steps += 1;
            if self.steps > STEPS_MAX {
                self.shared
                    .ledger()
                    .broken("the world comes to rest", format!("{} steps", self.steps));
            }
            if self.is_over() {
                return;
            }
            self.bury();
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
            self.happen();
        }
    }

    fn is_over(&self) -> bool {
        self.shared.ledger().violation().is_some()
    }

    /// Lets every task run until nobody moves.
    async fn rest(&self) {
        let (mut quiet, mut seen, mut turns) = (0, self.shared.activity(), 0);
        while quiet < QUIET && turns < TURNS_MAX {
            tokio::task::yield_now().await;
            turns += 1;
            let activity = self.shared.activity();
            quiet = if activity == seen { quiet + 1 } else { 0 };
            seen = activity;
        }
        self.shared.ledger().must(turns < TURNS_MAX, "the world comes to rest", || {
            format!("not at {}", self.shared.now())
        });
    }

    /// Everything that is due on the agenda.
    fn happen(&mut self) {
        let now = self.shared.now();
        while let Some(entry) = self.agenda.first_entry().filter(|entry| entry.key().0 <= now) {
            match entry.remove() {
                Happening::Act => self.act(),
                Happening::Disrupt => self.disrupt(),
                Happening::Start(slot) => self.start(slot),
            }
        }
    }

    fn act(&mut self) {
        if self.shared.at_peace() {
            return;
        }
        let (users, shared) = (self.users(), self.shared.clone());
        if !users.is_empty() {
            let jobs = self.releases[self.release].iter().map(|plan| plan.name.clone()).collect();
            let messages = shared.ledger().messages.keys().rev().take(30).copied().collect();
            shared.draw(|random| random.pick(&users).act(random, &Targets { jobs, messages }));
        }
        let wait = shared.draw(|random| random.millis(500, 45_000));
        self.plan(wait, Happening::Act);
    }

    /// Processes that are there and not on their way out.
    fn users(&self) -> Vec<User> {
        self.slots
            .iter()
            .filter(|slot| !slot.leaving)
            .filter_map(|slot| slot.user.clone())
            .collect()
    }

    /// Forgets processes that died; somebody will start them again.
    fn bury(&mut self) {
        for index in 0..self.slots.len() {
            let slot = &mut self.slots[index];
            if slot.user.as_ref().is_some_and(|user| user.machine.is_dead()) {
                slot.user = None;
                slot.leaving = false;
                let wait = self.shared.draw(|random| random.seconds(1, 120));
                self.plan(wait, Happening::Start(index));
            } else if slot.leaving
                && slot.user.as_ref().is_some_and(|user| user.machine.has_stopped())
            {
                slot.user = None;
                slot.leaving = false;
                let wait = self.shared.draw(|random| random.seconds(1, 300));
                self.plan(wait, Happening::Start(index));
            }
        }
    }

    /// Starts a process: new identity, perhaps another release, perhaps a wrong clock.
    fn start(&mut self, index: usize) {
        if self.slots[index].user.is_some() {
            return;
        }
        let shared = self.shared.clone();
        let old = self.release > 0 && shared.strikes(Fault::DeployedOld);
        let release = if old { self.release - 1 } else { self.release };
        if shared.strikes(Fault::StartedSkewed) {
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
        let link = BrokerLink { broker: self.broker.clone(), machine: machine.clone() };
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
            .transport(BROKER, Arc::new(link))
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

    /// What must be true at rest.
    async fn check(&self) {
        let now = self.shared.now();
        let counts = self.shared.storage.counts(now).await.expect("memory answers");
        self.shared.ledger().compare_counts(&counts);
        if self.steps.is_multiple_of(COMPARE_ALL_EVERY) {
            self.compare_all().await;
        }
    }

    /// Compares everything that is stored with what must be.
    async fn compare_all(&self) {
        let storage = &self.shared.storage;
        let mut page = PageRequest::first(1_000);
        loop {
            let rows =
                storage.messages(MessageFilter::default(), page).await.expect("memory answers");
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

    fn outcome(&self, start: Timestamp) -> Outcome {
        let ledger = self.shared.ledger();
        Outcome {
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

/// How wrong a clock may be: usually up to ten minutes, sometimes an hour.
fn draw_skew(random: &mut Random) -> SignedDuration {
    let most = *random.pick(&[2_000, 30_000, 600_000, 600_000, 3_600_000]);
    let length = SignedDuration::from_millis(i64::try_from(random.between(1, most)).unwrap_or(1));
    if random.percent(50) { length } else { -length }
}

fn draw_options(options: &mut punctual::Options, threshold: Duration, random: &mut Random) {
    options.lease_duration = Duration::from_secs(60);
    options.poll_interval = random.seconds(10, 30);
    options.rescue_interval = Duration::from_secs(30);
    options.misfire_threshold = threshold;
    options.concurrency = 2;
    options.batch = *random.pick(&[1, 3, 100]);
    options.drain = random.seconds(0, 20);
    options.grace = random.seconds(1, 5);
    options.settle_timeout = random.seconds(10, 60);
    options.retention = random.percent(15).then(|| Duration::from_secs(3_600));
}
