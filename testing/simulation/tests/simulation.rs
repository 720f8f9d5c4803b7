//! Simulation over a fixed list of seeds. `docs/simulation.md` describes what is simulated and which rules must hold.

#![allow(clippy::print_stdout, reason = "the summary and the trace are its output")]

use punctual_simulation::{Replay, Summary};

/// Number of seeds in a default test run.
const SMOKE_SEEDS: u64 = 100;

// Traps 1, 2, 3, 4, 5, 7, 8, 9, 19, 20.
// spec: H-4, H-6, H-40, H-41, H-42, H-44, H-45, M-11, M-12, M-14, M-15, M-16, M-17, M-20, M-21, M-23
// spec: U-42, U-45, U-47, T-23, T-26, T-44
#[test]
fn smoke() {
    let summary = Summary::of(0, SMOKE_SEEDS);
    println!("{summary}");
    assert!(summary.failure.is_none(), "{}", summary.failure.unwrap_or_default());
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..6 {
        let (first, second) = (Replay::of(seed), Replay::of(seed));
        let differs = first.lines.iter().zip(&second.lines).find(|(one, other)| one != other);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!(first.hash, second.hash, "seed {seed}");
        assert_ne!(first.hash, Replay::of(seed + 1).hash, "seed {seed}");
    }
}

/// Runs thousands of seeds; called by `cargo xtask simulate`.
#[test]
#[ignore = "takes a minute; run by cargo xtask simulate"]
fn bulk() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("PUNCTUAL_SIM_SEED") {
        let replay = Replay::of(seed);
        for line in &replay.lines {
            println!("{line}");
        }
        assert!(replay.failure.is_none(), "{}", replay.failure.unwrap_or_default());
        return;
    }
    let start = number("PUNCTUAL_SIM_START").unwrap_or(0);
    let summary = Summary::of(start, number("PUNCTUAL_SIM_SEEDS").unwrap_or(2_000));
    println!("{summary}");
    assert!(summary.failure.is_none(), "{}", summary.failure.unwrap_or_default());
    let idle = summary.idle_faults();
    assert!(summary.seeds < 500 || idle.is_empty(), "these faults never happened: {idle:?}");
}
