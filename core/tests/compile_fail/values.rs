//! Values of the wrong kind; all mistakes of one declaration are reported together.
use punctual::job;

#[job(
    name = "a",
    every = "5",
    timeout = 30,
    priority = 10,
    runs_max = 0,
    misfire = "fire_twice",
    misfire_threshold = "soon",
    overlap = "skipp",
    on_timeout = "panic",
    spread = "often 3s",
    start = "tomorrow",
    tags = 3,
    queue = " ",
    retry = "exponentail",
)]
async fn everything() {}

#[job(name = "a", every = "5m", attempts = 3)]
async fn attempts_alone() {}

#[job(name = "a", every = "5m", retry = exponential(first = "10s", ratio = 2))]
async fn wrong_setting() {}

#[job(name = "a", every = "5m", retry = "1m, soon")]
async fn bad_wait() {}

#[job(name = "a", every = "5m", overlap = "allow(0)")]
async fn never() {}

fn main() {}
