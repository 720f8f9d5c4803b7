//! An invalid cron expression and an invalid zone: both are reported together.
use punctual::job;

#[job(name = "nightly", cron = "0 25 * * *", zone = "Europe/Warsav")]
async fn nightly() {}

#[job(name = "years", cron = "0 0 2 * * * 2026")]
async fn years() {}

fn main() {}
