//! Reports: a summary of many seeds run on all cores, and the trace of the first one that failed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use punctual::jiff::SignedDuration;
use punctual::{Clock, SystemClock};

use super::faults::Fault;
use super::ledger::Tally;
use super::shared::lock;
use super::world::{self, SeedResult};

/// Number of trace lines shown with a failure.
const TAIL: usize = 60;

/// Run of one seed with its trace.
#[derive(Debug)]
pub struct Replay {
    /// Lines of the trace.
    pub lines: Vec<String>,
    /// Hash of the trace, equal for every run of the same seed.
    pub hash: u64,
    /// Violated rule, last lines of the trace, and command to replay it.
    pub failure: Option<String>,
}

impl Replay {
    /// Runs one seed.
    pub fn of(seed: u64) -> Self {
        let result = world::run(seed, true);
        let failure = result.violation.is_some().then(|| describe(&result));
        Self { lines: result.trace.lines, hash: result.trace.hash, failure }
    }
}

/// Summary of many seeds.
#[derive(Default)]
pub struct Summary {
    /// Number of seeds run.
    pub seeds: u64,
    /// Description of the first seed that violated a rule, as in [`Replay`].
    pub failure: Option<String>,
    /// Seeds that violated each rule.
    violations: BTreeMap<&'static str, Vec<u64>>,
    steps: u64,
    virtual_time: SignedDuration,
    wall_time: SignedDuration,
    tally: Tally,
    faults: [u64; Fault::ALL.len()],
}

impl Summary {
    /// Runs `count` seeds from `start` on; stops early when one fails.
    pub fn of(start: u64, count: u64) -> Self {
        let begun = SystemClock.now();
        // A survey continues after a failure, to count the seeds that find a defect.
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
                        let result = world::run(seed, false);
                        if result.violation.is_some() {
                            failed.store(!survey, Ordering::Relaxed);
                        }
                        lock(&sum).add(&result);
                    }
                });
            }
        });
        let mut summary = sum.into_inner().unwrap_or_default();
        summary.wall_time = SystemClock.now().duration_since(begun);
        summary
    }

    fn add(&mut self, result: &SeedResult) {
        self.seeds += 1;
        self.steps += result.steps;
        self.virtual_time += result.virtual_time;
        self.tally += result.tally;
        for (sum, count) in self.faults.iter_mut().zip(&result.faults) {
            *sum += count;
        }
        if let Some(violation) = &result.violation {
            self.violations.entry(violation.invariant).or_default().push(result.seed);
        }
        if result.violation.is_some() && self.failure.is_none() {
            // Runs the same seed again, with a trace.
            self.failure = Replay::of(result.seed).failure;
        }
    }

    /// Returns the names of faults that never occurred, which indicates a defect of the simulation.
    pub fn idle_faults(&self) -> Vec<String> {
        let idle = Fault::ALL.into_iter().filter(|fault| self.faults[*fault as usize] == 0);
        idle.map(|fault| format!("{fault:?}")).collect()
    }
}

/// Describes a failed seed: the violated rule, details, the end of the trace, and the command to replay it.
fn describe(result: &SeedResult) -> String {
    let Some(violation) = &result.violation else {
        return format!("seed {} passes", result.seed);
    };
    let lines = &result.trace.lines;
    let tail = lines[lines.len().saturating_sub(TAIL)..].join("\n");
    let (seed, steps) = (result.seed, result.steps);
    format!(
        "seed {seed} violates \"{}\" at step {steps}\n{}\n\n{tail}\n\nseed {seed} violates \"{}\"\n{}\nreplay: cargo xtask simulate --seed {seed}",
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
            "{firings} firings with {occurrences} occurrences compared: {misfires} misfires run, {skips} skipped"
        )?;
        writeln!(
            f,
            "{} declarations stored, {} commands, {} checks",
            tally.declarations, tally.commands, tally.checks
        )?;
        for (invariant, seeds) in &self.violations {
            let first: Vec<_> = seeds.iter().take(8).collect();
            writeln!(f, "{} seeds violate \"{invariant}\", such as {first:?}", seeds.len())?;
        }
        for fault in Fault::ALL {
            writeln!(f, "{:>10} {fault:?}", self.faults[fault as usize])?;
        }
        Ok(())
    }
}
