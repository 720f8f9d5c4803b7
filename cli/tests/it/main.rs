//! The program as it is used: started with a command line, its output and exit code compared.

#![expect(clippy::unwrap_used, reason = "these are all tests")]

mod carrying;
mod cron;
mod crontab;
mod double;
mod login;
mod on_storage;
#[cfg(unix)]
mod over_http;
#[cfg(unix)]
mod running;
#[cfg(unix)]
mod serve;
#[cfg(unix)]
mod tls;
mod transcripts;
