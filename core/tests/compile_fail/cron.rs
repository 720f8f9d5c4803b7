//! A cron expression that is none, and a zone that is none: both are said at once.
use punctual::job;

#[job(name = "nightly", cron = "0 25 * * *", zone = "Europe/Warsav")]
async fn nightly() {}

#[job(name = "years", cron = "0 0 2 * * * 2026")]
async fn years() {}

fn main() {}
