//! Options that do not exist, are given twice, or have a value or none by mistake.
use punctual::job;

#[job(name = "a", every = "5m", timout = "30s")]
async fn misspelt() {}

#[job(name = "a", every = "5m", window = "30s")]
async fn other_word() {}

#[job(name = "a", every = "5m", every = "6m")]
async fn twice() {}

#[job(name = "a", every = "5m", spread = "stable 3s", jitter = "stable 4s")]
async fn one_option_twice_by_two_names() {}

#[job(name = "a", every = "5m", must_report = true)]
async fn flag() {}

#[job(name = "a", every = "5m", queue)]
async fn no_value() {}

#[job(name = "a", every = "5m", payload = "x")]
async fn payload() {}

fn main() {}
