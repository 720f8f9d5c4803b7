//! Many seeds on all cores, added up, and the story of the first one that failed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use punctual::jiff::SignedDuration;
use punctual::{Clock, SystemClock};

use super::faults::Fault;
use super::ledger::Tally;
use super::shared::lock;
use super::world::{self, Outcome};

/// How many lines of the story are shown with a failure.
const TAIL: usize = 60;

/// One seed with its trace.
#[derive(Debug)]
pub struct Replay {
    /// What happened, step by step.
    pub lines: Vec<String>,
    /// Hash of everything that happened: the same seed always has the same.
    pub hash: u64,
    /// The rule that was broken, the last lines of the trace and how to see it again.
    pub failure: Option<String>,
}

impl Replay {
    /// Runs one seed.
    pub fn of(seed: u64) -> Self {
        let outcome = world::run(seed, true);
        let failure = outcome.violation.is_some().then(|| describe(&outcome));
        Self { lines: outcome.trace.lines, hash: outcome.trace.hash, failure }
    }
}

/// What came of many seeds.
#[derive(Default)]
pub struct Summary {
    /// How many were run.
    pub seeds: u64,
    /// The first one that broke a rule, as a [`Replay`] describes it.
    pub failure: Option<String>,
    /// Which seeds broke which rule.
    broken: BTreeMap<&'static str, Vec<u64>>,
    steps: u64,
    virtual_time: SignedDuration,
    wall_time: SignedDuration,
    tally: Tally,
    faults: [u64; Fault::ALL.len()],
}

impl Summary {
    /// Runs so many seeds from one on; stops early when one fails.
    pub fn of(start: u64, count: u64) -> Self {
        let begun = SystemClock.now();
        // Goes on after a failure, to see how many seeds find a defect.
        let survey = std::env::var_os("PUNCTUAL_SIM_SURVEY").is_some();
        let (next, failed) = (AtomicU64::new(start), AtomicBool::new(false));
        let sum = Mutex::new(Self::default());
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    while !failed.load(Ordering::Relaxed) {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= start + count {
                            break;
                        }
                        let outcome = world::run(seed, false);
                        if outcome.violation.is_some() {
                            failed.store(!survey, Ordering::Relaxed);
                        }
                        lock(&sum).add(&outcome);
                    }
                });
            }
        });
        let mut summary = sum.into_inner().unwrap_or_default();
        summary.wall_time = SystemClock.now().duration_since(begun);
        summary
    }

    fn add(&mut self, outcome: &Outcome) {
        self.seeds += 1;
        self.steps += outcome.steps;
        self.virtual_time += outcome.virtual_time;
        self.tally += outcome.tally;
        for (sum, count) in self.faults.iter_mut().zip(&outcome.faults) {
            *sum += count;
        }
        if let Some(violation) = &outcome.violation {
            self.broken.entry(violation.invariant).or_default().push(outcome.seed);
        }
        if outcome.violation.is_some() && self.failure.is_none() {
            // The same seed again, this time with its story.
            self.failure = Replay::of(outcome.seed).failure;
        }
    }

    /// Names of the faults that never happened: a generator that died.
    pub fn idle_faults(&self) -> Vec<String> {
        let idle = Fault::ALL.into_iter().filter(|fault| self.faults[*fault as usize] == 0);
        idle.map(|fault| format!("{fault:?}")).collect()
    }
}

/// A failed seed: which rule, how, what came before, and how to see it again.
fn describe(outcome: &Outcome) -> String {
    let Some(violation) = &outcome.violation else {
        return format!("seed {} holds", outcome.seed);
    };
    let lines = &outcome.trace.lines;
    let tail = lines[lines.len().saturating_sub(TAIL)..].join("\n");
    let (seed, steps) = (outcome.seed, outcome.steps);
    format!(
        "seed {seed} breaks \"{}\" at step {steps}\n{}\n\n{tail}\n\nseed {seed} breaks \"{}\"\n{}\nreplay: cargo xtask simulate --seed {seed}",
        violation.invariant, violation.detail, violation.invariant, violation.detail
    )
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.messages += other.messages;
        self.runs += other.runs;
        self.rescues += other.rescues;
        self.stale_settlements += other.stale_settlements;
        self.firings += other.firings;
        self.occurrences += other.occurrences;
        self.misfires += other.misfires;
        self.skips += other.skips;
        self.declarations += other.declarations;
        self.commands += other.commands;
        self.carried += other.carried;
        self.checks += other.checks;
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seeds, steps, tally, .. } = self;
        let hours = self.virtual_time.as_hours();
        writeln!(
            f,
            "{seeds} seeds, {steps} steps, {hours} hours of virtual time in {:?}",
            self.wall_time
        )?;
        writeln!(
            f,
            "{} messages, {} carried by the broker, {} handler runs",
            tally.messages, tally.carried, tally.runs
        )?;
        writeln!(
            f,
            "{} rescues, {} settlements refused as stale",
            tally.rescues, tally.stale_settlements
        )?;
        let Tally { firings, occurrences, misfires, skips, .. } = tally;
        writeln!(
            f,
            "{firings} firings about {occurrences} occurrences compared: {misfires} misfires run, {skips} skipped"
        )?;
        writeln!(
            f,
            "{} declarations stored, {} commands, {} checks",
            tally.declarations, tally.commands, tally.checks
        )?;
        for (invariant, seeds) in &self.broken {
            let first: Vec<_> = seeds.iter().take(8).collect();
            writeln!(f, "{} seeds break \"{invariant}\", such as {first:?}", seeds.len())?;
        }
        for fault in Fault::ALL {
            writeln!(f, "{:>10} {fault:?}", self.faults[fault as usize])?;
        }
        Ok(())
    }
}
