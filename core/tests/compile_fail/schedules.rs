//! Schedules: a job has a name, and exactly one schedule.
use punctual::job;

#[job(cron = "0 2 * * *")]
async fn no_name() {}

#[job(name = "a")]
async fn no_schedule() {}

#[job(name = "a", cron = "0 2 * * *", every = "5m")]
async fn two_schedules() {}

#[job(name = "a", every = "5m", zone = "UTC")]
async fn zone_of_an_interval() {}

#[job(name = "a", cron = "0 2 * * *", anchor = "2026-01-01T00:00:00Z")]
async fn anchor_of_a_cron() {}

fn main() {}
